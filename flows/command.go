package flows

// CommandWith is what the action of command nodes gets as its With. Only values
// of the environment have had templates: what a command runs never comes out of
// data.
type CommandWith struct {
	// Argv is a program and its arguments.
	Argv []string `json:"argv"`
	// Env is set for the program and its checks.
	Env map[string]string `json:"env,omitempty"`
	// Accept are commands that must exit with 0 afterwards.
	Accept [][]string `json:"accept,omitempty"`
}
