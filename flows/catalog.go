package flows

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Source is a place with flow files: either Files or an FS, of which all
// *.yaml and *.yml files at any depth are flows.
type Source struct {
	// Name is for people, e.g. "built in" or the folder's path.
	Name string
	FS   fs.FS
	// Files are contents by file name.
	Files map[string][]byte
}

// Entry is one flow file of a catalog.
type Entry struct {
	// Name is the flow's, or the file's when it can't be read.
	Name   string `json:"name"`
	Source string `json:"source"`
	File   string `json:"file"`
	// Hash is "" for an invalid flow.
	Hash     string   `json:"hash,omitempty"`
	Version  int      `json:"version,omitempty"`
	Phase    string   `json:"phase,omitempty"`
	Problems Problems `json:"problems,omitempty"`
	// Wins says that Get returns this one of all that have the name.
	Wins bool `json:"wins"`
	flow *Flow
}

// Catalog is the flows of several sources. Of two flows of one name that of
// the later source wins, valid or not: a broken override is an error, not a
// silent way back to what it overrides.
type Catalog struct{ entries []Entry }

// NewCatalog reads all sources. Invalid flows are listed with their problems;
// only a source that can't be read is an error. A source without its folder
// is empty.
func NewCatalog(reg *Registry, sources ...Source) (*Catalog, error) {
	c := &Catalog{}
	winner := map[string]int{}
	for _, s := range sources {
		found, err := readSource(reg, s)
		if err != nil {
			return nil, err
		}
		first := map[string]string{}
		for _, e := range found {
			if file, twice := first[e.Name]; twice {
				e.Problems = append(e.Problems, Problem{
					Code: "duplicate-id", File: e.File, Line: 1, Column: 1,
					Msg: fmt.Sprintf("the flow %s is in %s already", e.Name, file), Hint: "give it another name",
				})
				e.flow, e.Hash = nil, ""
			} else {
				first[e.Name] = e.File
			}
			c.entries = append(c.entries, e)
			winner[e.Name] = len(c.entries) - 1
		}
	}
	for _, i := range winner {
		c.entries[i].Wins = true
	}
	slices.SortStableFunc(c.entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

func readSource(reg *Registry, s Source) ([]Entry, error) {
	var found []Entry
	for _, file := range slices.Sorted(maps.Keys(s.Files)) {
		found = append(found, newEntry(reg, s.Name, file, s.Files[file]))
	}
	if s.FS == nil {
		return found, nil
	}
	err := fs.WalkDir(s.FS, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && file == ".":
			return fs.SkipAll
		case err != nil:
			return err
		case d.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, path.Ext(file)):
			return nil
		}
		// Reading a pipe or a device would not end; a link is followed.
		if fi, err := fs.Stat(s.FS, file); err != nil {
			return err
		} else if fi.IsDir() {
			return nil
		} else if !fi.Mode().IsRegular() {
			return fmt.Errorf("%s is no regular file", file)
		}
		src, err := readCapped(s.FS, file)
		if err != nil {
			return err
		}
		found = append(found, newEntry(reg, s.Name, file, src))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading flows from %s: %w", s.Name, err)
	}
	return found, nil
}

// readCapped reads one byte more than a flow may have, so that Load refuses
// what is larger.
func readCapped(fsys fs.FS, file string) ([]byte, error) {
	f, err := fsys.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

func newEntry(reg *Registry, source, file string, src []byte) Entry {
	e := Entry{Source: source, File: file}
	f, problems := Load(file, src, reg)
	if len(problems) > 0 {
		e.Name, e.Problems = nameIn(src), problems
		if e.Name == "" {
			e.Name = nameOfFile(file)
		}
		return e
	}
	e.Name, e.Hash, e.Version, e.Phase, e.flow = f.Name(), f.Hash(), f.Version(), f.Phase(), f
	return e
}

// nameIn finds the name in a file that is otherwise refused.
func nameIn(src []byte) string {
	var doc yaml.Node
	if len(src) > maxFile || yaml.Unmarshal(src, &doc) != nil || len(doc.Content) == 0 {
		return ""
	}
	top, ok := (&reader{}).mapping(doc.Content[0], "", "", nil)
	if n := top.values["name"]; ok && n != nil && nameForm.MatchString(n.Value) {
		return n.Value
	}
	return ""
}

// nameOfFile is the file's base name, or its folder's for flow.yaml.
func nameOfFile(file string) string {
	base := strings.TrimSuffix(path.Base(file), path.Ext(file))
	if dir := path.Base(path.Dir(file)); base == "flow" && dir != "." {
		return dir
	}
	return base
}

// List returns every flow file, by name, in the order of the sources.
func (c *Catalog) List() []Entry { return slices.Clone(c.entries) }

// Get returns the flow that wins a name. An invalid one is an error that
// holds its Problems.
func (c *Catalog) Get(name string) (*Flow, error) {
	var names []string
	for _, e := range c.entries {
		switch {
		case !e.Wins:
		case e.Name == name && e.flow == nil:
			return nil, fmt.Errorf("flow %s from %s is invalid: %w", name, e.Source, e.Problems)
		case e.Name == name:
			return e.flow, nil
		default:
			names = append(names, e.Name)
		}
	}
	return nil, fmt.Errorf("no flow is called %q (%s)", name, cmp.Or(didYouMean(name, names), "see the list of flows"))
}
