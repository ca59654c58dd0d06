package driver_test

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/pipelinebot/pipelinebot/llm/driver"
)

func TestAPrivateAuthorityIsTrustedByItsFile(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "empty.pem")
	for name, text := range map[string][]byte{file: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), empty: nil} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(ca string) error {
		t.Helper()
		c, err := driver.Client(0, ca)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	if err := ask(file); err != nil {
		t.Errorf("with the file: %v", err)
	}
	if err := ask(""); err == nil {
		t.Error("trusted without it")
	}
	for _, bad := range []string{empty, filepath.Join(dir, "none.pem")} {
		if _, err := driver.Client(0, bad); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
