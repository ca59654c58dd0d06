package cassette

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pipelinebot/pipelinebot/llm"
)

const (
	version = 1
	// maxFile bounds a recording.
	maxFile = 64 << 20
)

type file struct {
	Version      int           `yaml:"version"`
	Interactions []interaction `yaml:"interactions"`
}

type interaction struct {
	// Key is the hash of the request. A hand that changes the request leaves
	// it out, and it is computed.
	Key      string    `yaml:"key,omitempty"`
	Request  request   `yaml:"request"`
	Response *response `yaml:"response,omitempty"`
	Error    *failure  `yaml:"error,omitempty"`
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return b, nil
}

// decode reads a recording strictly; all problems with interactions are told
// at once.
func decode(b []byte) ([]entry, error) {
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	var f file
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty")
		}
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	if f.Version != version {
		return nil, fmt.Errorf("version %d; this program reads version %d", f.Version, version)
	}
	var out []entry
	var errs []error
	for i, in := range f.Interactions {
		e, err := in.entry()
		if err != nil {
			errs = append(errs, fmt.Errorf("interaction %d: %w", i+1, err))
		}
		out = append(out, e)
	}
	return out, errors.Join(errs...)
}

func (in interaction) entry() (entry, error) {
	e := entry{request: in.Request, response: in.Response, failure: in.Error}
	switch {
	case in.Request.empty():
		return e, errors.New("it has no request")
	case (in.Response == nil) == (in.Error == nil):
		return e, errors.New("it must have a response or an error, and not both")
	case in.Error != nil && !slices.Contains(kinds(), llm.Kind(in.Error.Kind)):
		return e, fmt.Errorf("error kind %q is unknown", in.Error.Kind)
	case in.Response != nil && !slices.Contains([]llm.StopReason{llm.EndTurn, llm.ToolUse, llm.MaxTokens}, llm.StopReason(in.Response.Stop)):
		return e, fmt.Errorf("stop reason %q is unknown", in.Response.Stop)
	}
	key, err := in.Request.key()
	if err != nil {
		return e, fmt.Errorf("hashing its request: %w", err)
	}
	if in.Key != "" && in.Key != key {
		return e, fmt.Errorf("its key does not belong to its request (%s), which was changed by hand; remove the key if that is meant", in.Request.Prompt)
	}
	e.key = key
	return e, nil
}

// encode writes a recording, and makes sure that it can be read again as what
// it is.
func encode(all []entry) ([]byte, error) {
	f := file{Version: version, Interactions: []interaction{}}
	for _, e := range all {
		f.Interactions = append(f.Interactions, interaction{e.key, e.request, e.response, e.failure})
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(f), e.Close()); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	if _, err := decode(b.Bytes()); err != nil {
		return nil, fmt.Errorf("it could not be read again: %w", err)
	}
	return b.Bytes(), nil
}
