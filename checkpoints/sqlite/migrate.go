package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the schema up to date in mode Daemon, and else checks that
// it is.
func migrate(ctx context.Context, db *sql.DB, o Options) error {
	found, err := schemaVersion(ctx, db)
	if err != nil {
		return err
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	sources := p.ListSources()
	known := sources[len(sources)-1].Version
	switch {
	case found > known:
		return fmt.Errorf("%w: its schema is version %d and this program knows up to %d; "+
			"run the newer program, or restore a backup made before it was first started",
			checkpoints.ErrNewer, found, known)
	case found == known:
		return nil
	case o.Mode != Daemon:
		return fmt.Errorf("its schema is version %d and this program needs %d: start the daemon once, which migrates it", found, known)
	}
	results, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrating the schema from version %d to %d: %w", found, known, err)
	}
	for _, r := range results {
		o.Logger.InfoContext(ctx, "schema migrated", "version", r.Source.Version, "took", r.Duration)
	}
	return nil
}

// schemaVersion is the version of the last migration that was applied, 0 for
// an empty file.
func schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	var tables, ours int64
	err = db.QueryRowContext(ctx,
		`SELECT count(*), count(*) FILTER (WHERE name = 'goose_db_version') FROM sqlite_schema WHERE type = 'table'`).
		Scan(&tables, &ours)
	if err != nil {
		return 0, fmt.Errorf("reading the schema: %w", err)
	}
	if ours == 0 {
		if tables > 0 {
			return 0, errors.New("this is a SQLite database of another program: choose another path")
		}
		return 0, nil
	}
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	if err != nil {
		return 0, fmt.Errorf("reading the schema's version: %w", err)
	}
	return version, nil
}
