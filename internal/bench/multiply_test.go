package bench_test

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// portion is how many runs are copied by one statement a table, so that the
// log stays short.
const portion = 5000

// multiply copies parked runs, row by row and with all that hangs on them,
// until there are count of them. A copy differs in what is a run's own: its id,
// key and lineage, and where its history is.
func (s *stage) multiply(originals []string, count int) {
	s.tb.Helper()
	s.tables(originals)
	for from := len(originals); from < count; from += portion {
		s.copyRuns(len(originals), from, min(from+portion, count))
	}
	s.sound()
	ids, err := s.store.IDs(s.tb.Context(), checkpoints.Filter{})
	if err != nil || len(ids) != count {
		s.tb.Fatalf("%d runs, %v, want %d", len(ids), err, count)
	}
	for i := 0; i < count; i += count / 10 {
		s.same(ids[i], originals)
	}
}

// tables fails when a parked run has rows in a table that is not copied.
func (s *stage) tables(originals []string) {
	s.tb.Helper()
	for table, want := range map[string]int{
		"runs": len(originals), "history": len(originals), "effects": len(originals), "definitions": 1, "flow_versions": 1,
		"events": 0, "branches": 0, "audits": 0, "ledger": 0, "triggers": 0,
	} {
		var n int
		if err := s.store.DB().QueryRowContext(s.tb.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil || n != want {
			s.tb.Fatalf("table %s has %d rows of %d parked runs, %v, want %d", table, n, len(originals), err, want)
		}
	}
}

// copyID is the id of the i-th run as a copy of run r.
const copyID = `substr(r.id, 1, 20) || printf('%06d', i)`

// copyRuns makes the runs from to until of the first of them. Numbers of runs
// and of their only row in the history begin at 1 and have no gaps; each has
// one effect, the time at which its visit began.
func (s *stage) copyRuns(originals, from, until int) {
	s.tb.Helper()
	for _, t := range []struct {
		table, join string
		own         map[string]string
	}{
		{"history", "t.run = r.n", map[string]string{"n": "i + 1", "run": "i + 1"}},
		{"effects", "t.key >= 'run/' || r.id || '/' AND t.key < 'run/' || r.id || '0'", map[string]string{"key": "replace(t.key, r.id, " + copyID + ")"}},
		{"runs", "t.n = r.n", map[string]string{
			"n": "i + 1", "id": copyID, "lineage": copyID, "key": "t.key || '/' || i", "first": "i + 1", "last": "i + 1",
		}},
	} {
		columns, values := s.columns(t.table, t.own)
		res, err := s.store.DB().ExecContext(s.tb.Context(), `WITH RECURSIVE c (i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM c WHERE i + 1 < ?2)
			INSERT INTO `+t.table+` (`+columns+`) SELECT `+values+`
			FROM c CROSS JOIN runs r ON r.n = i % ?3 + 1 CROSS JOIN `+t.table+` t ON `+t.join, from, until, originals)
		if err != nil {
			s.tb.Fatal(err)
		}
		if n, err := res.RowsAffected(); err != nil || n != int64(until-from) {
			s.tb.Fatalf("%d rows of %s were copied, %v, want %d", n, t.table, err, until-from)
		}
	}
}

// columns are those of a table, and what a copy t has in them.
func (s *stage) columns(table string, own map[string]string) (columns, values string) {
	s.tb.Helper()
	err := s.store.DB().QueryRowContext(s.tb.Context(), `SELECT group_concat(name), group_concat('t.' || name) FROM pragma_table_info(?)`, table).
		Scan(&columns, &values)
	if err != nil {
		s.tb.Fatal(err)
	}
	list := strings.Split(values, ",")
	for i, name := range strings.Split(columns, ",") {
		if value, ok := own[name]; ok {
			list[i] = value
		}
	}
	return columns, strings.Join(list, ",")
}

// sound has the database check its references and indexes.
func (s *stage) sound() {
	s.tb.Helper()
	var broken int
	var verdict string
	err := s.store.DB().QueryRowContext(s.tb.Context(), `SELECT (SELECT count(*) FROM pragma_foreign_key_check), (SELECT quick_check FROM pragma_quick_check)`).
		Scan(&broken, &verdict)
	if err != nil || broken != 0 || verdict != "ok" {
		s.tb.Fatalf("the file with the copies has %d broken references and is %s, %v", broken, verdict, err)
	}
}

// same fails unless the run reads as some original does, but for its names.
func (s *stage) same(id string, originals []string) {
	s.tb.Helper()
	get := func(id string) checkpoints.Run {
		r, err := s.store.Get(s.tb.Context(), id)
		if err != nil {
			s.tb.Fatal(err)
		}
		return r
	}
	r := get(id)
	for _, o := range originals {
		if o[:20] != id[:20] {
			continue
		}
		if diff := cmp.Diff(get(o), r, cmpopts.IgnoreFields(checkpoints.Run{}, "ID", "Lineage", "Key")); diff != "" || r.Lineage != id {
			s.tb.Fatalf("run %s is no copy of %s (-want +got):\n%s", id, o, diff)
		}
		return
	}
	s.tb.Fatalf("run %s is a copy of none", id)
}
