package sqlite

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pipelinebot/pipelinebot/checkpoints"
)

// What is encoded by hand is JSON that reads back the same.
func TestEncoding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64())
		want := checkpoints.Usage{
			InputTokens: n.Draw(t, "in"), OutputTokens: n.Draw(t, "out"), CachedTokens: n.Draw(t, "cached"),
			ToolCalls: n.Draw(t, "tools"), ModelCalls: n.Draw(t, "models"), MicroUSD: n.Draw(t, "money"),
		}
		var got checkpoints.Usage
		if err := decode(encodeUsage(want), &got); err != nil || got != want {
			t.Fatalf("usage %+v came back as %+v, %v", want, got, err)
		}
		visits := rapid.MapOf(rapid.String(), rapid.Int()).Draw(t, "visits")
		text, err := encodeVisits(visits)
		if err != nil {
			t.Fatal(err)
		}
		back := map[string]int{}
		if err := decode(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(visits, back); diff != "" {
			t.Fatalf("visits (-want +got):\n%s", diff)
		}
	})
	if got := encodeUsage(checkpoints.Usage{}); got != "" {
		t.Fatalf("no usage is %q", got)
	}
}
