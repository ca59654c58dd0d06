package mockworld

import (
	"fmt"
	"net/http"
)

// Limits of sizes, as GitHub has them.
const (
	maxBody      = 65_536
	maxComments  = 2_500
	maxLabelName = 50
	maxTitle     = 256
)

// obj is a JSON object.
type obj = map[string]any

// apiErr is a refusal in GitHub's shape.
type apiErr struct {
	status  int
	message string
	errors  []any
	header  http.Header
}

func (e *apiErr) Error() string {
	if len(e.errors) > 0 {
		return fmt.Sprintf("%d %s %v", e.status, e.message, e.errors)
	}
	return fmt.Sprintf("%d %s", e.status, e.message)
}

func (e *apiErr) body() obj {
	b := obj{"message": e.message, "documentation_url": "https://docs.github.com/rest", "status": fmt.Sprint(e.status)}
	if len(e.errors) > 0 {
		b["errors"] = e.errors
	}
	return b
}

func refuse(status int, format string, args ...any) *apiErr {
	return &apiErr{status: status, message: fmt.Sprintf(format, args...)}
}

func notFound() *apiErr { return refuse(http.StatusNotFound, "Not Found") }

// invalid is a 422 about one field.
func invalid(resource, field, code string) *apiErr {
	return &apiErr{status: http.StatusUnprocessableEntity, message: "Validation Failed",
		errors: []any{obj{"resource": resource, "field": field, "code": code}}}
}

// invalidWhy is a 422 with words.
func invalidWhy(resource, field, why string) *apiErr {
	e := obj{"resource": resource, "code": "custom", "message": why}
	if field != "" {
		e["field"] = field
	}
	return &apiErr{status: http.StatusUnprocessableEntity, message: "Validation Failed", errors: []any{e}}
}

func checkBody(resource string, body string) error {
	if len([]rune(body)) > maxBody {
		return invalidWhy(resource, "body", fmt.Sprintf("body is too long (maximum is %d characters)", maxBody))
	}
	return nil
}
