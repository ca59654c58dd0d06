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
	// Notes are what an author may not have meant, for people; the flow is
	// usable all the same.
	Notes []string `json:"notes,omitempty"`
	// Wins says that Get returns this one of all that have the name.
	Wins bool `json:"wins"`
	flow *Flow
	src  []byte
	// source is the place of the source among the sources.
	source int
	// state is 0 for not loaded, 1 for being loaded, 2 for done.
	state int
}

// Catalog is the flows of several sources. Of two flows of one name that of
// the later source wins, valid or not: a broken override is an error, not a
// silent way back to what it overrides.
type Catalog struct {
	entries []Entry
	options LoadOptions
}

// NewCatalog reads all sources. Invalid flows and files that can't be read are
// listed with their problems; only a source that can't be read is an error. A
// source without its folder is empty. A subflow finds the flows that win.
func NewCatalog(reg *Registry, sources ...Source) (*Catalog, error) {
	return NewCatalogWith(LoadOptions{Registry: reg}, sources...)
}

// NewCatalogWith is NewCatalog with more to check by: o's registry and phases.
func NewCatalogWith(o LoadOptions, sources ...Source) (*Catalog, error) {
	c := &Catalog{}
	c.options = LoadOptions{Registry: o.Registry, Phases: o.Phases, Child: c.Get}
	for i, s := range sources {
		found, err := readSource(s)
		if err != nil {
			return nil, err
		}
		for j := range found {
			found[j].source = i
		}
		c.entries = append(c.entries, found...)
	}
	(&catalogLoader{Catalog: c}).load()
	slices.SortStableFunc(c.entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range c.entries {
		if e.Wins {
			c.options.Names = append(c.options.Names, e.Name)
		}
	}
	return c, nil
}

func readSource(s Source) ([]Entry, error) {
	var found []Entry
	for _, file := range slices.Sorted(maps.Keys(s.Files)) {
		found = append(found, newEntry(s.Name, file, s.Files[file]))
	}
	if s.FS == nil {
		return found, nil
	}
	err := fs.WalkDir(s.FS, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && file == ".":
			return fs.SkipAll
		case err != nil && (file == "." || d == nil || d.IsDir()):
			return fmt.Errorf("folder %s: %w", file, err)
		case d.IsDir() || !slices.Contains([]string{".yaml", ".yml"}, path.Ext(file)):
			return nil
		}
		if e, ok := readEntry(s, file); ok {
			found = append(found, e)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading flows from %s: %w", s.Name, err)
	}
	return found, nil
}

// readEntry reads a file of a source; false for what is none.
func readEntry(s Source, file string) (Entry, bool) {
	src, err := readFlow(s.FS, file)
	switch {
	case errors.Is(err, errFolder):
		return Entry{}, false
	case err != nil:
		return unreadable(s.Name, file, err), true
	}
	return newEntry(s.Name, file, src), true
}

// errFolder is a link to a folder, which is not followed.
var errFolder = errors.New("a folder")

// readFlow reads a regular file, or what a link to one leads to: reading a pipe
// or a device would not end.
func readFlow(fsys fs.FS, file string) ([]byte, error) {
	switch fi, err := fs.Stat(fsys, file); {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return nil, errFolder
	case !fi.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	}
	return readCapped(fsys, file)
}

// unreadable lists a file under the name that it would probably have, so that
// it does not seem to be absent.
func unreadable(source, file string, err error) Entry {
	return Entry{Name: nameOfFile(file), Source: source, File: file, state: 2, Problems: Problems{{
		Code: "unreadable", File: file, Line: 1, Column: 1, Msg: fmt.Sprintf("the file can't be read: %v", err), Hint: "see who may read it",
	}}}
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

// newEntry is a file that is not loaded yet.
func newEntry(source, file string, src []byte) Entry {
	e := Entry{Name: nameIn(src), Source: source, File: file, src: src}
	if e.Name == "" {
		e.Name = nameOfFile(file)
	}
	return e
}

// nameIn finds the name in a file that is otherwise refused.
func nameIn(src []byte) string {
	if len(src) > maxFile {
		return ""
	}
	root, _, err := firstDocument(src)
	if err != nil || root == nil {
		return ""
	}
	top, ok := (&reader{}).mapping(root, "", "", nil)
	if n := top.value("name"); ok && n != nil && nameForm.MatchString(n.Value) {
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

// Options are those with which a file that is in none of the sources loads as
// if it were.
func (c *Catalog) Options() LoadOptions { return c.options }

// List returns every flow file, by name, in the order of the sources.
func (c *Catalog) List() []Entry { return slices.Clone(c.entries) }

// Get returns the flow that wins a name. An invalid one is an error that
// holds its Problems, an unknown one is ErrNoFlow. One that a file which
// can't be read might win over is an error too: nobody knows what that is
// called.
func (c *Catalog) Get(name string) (*Flow, error) {
	var names []string
	for _, e := range c.entries {
		switch {
		case !e.Wins:
		case e.Name == name && e.flow == nil:
			return nil, fmt.Errorf("flow %s from %s is invalid: %w", name, e.Source, e.Problems)
		case e.Name == name:
			if hidden := c.hidden(e); hidden != nil {
				return nil, fmt.Errorf("flow %s: what is in a file that can't be read may be meant instead: %w", name, hidden)
			}
			return e.flow, nil
		default:
			names = append(names, e.Name)
		}
	}
	return nil, noFlow(fmt.Sprintf("no flow is called %q (%s)", name, cmp.Or(didYouMean(name, names), "see the list of flows")))
}

// hidden is why a file can't be read that might hold a flow of the same name
// and win over e.
func (c *Catalog) hidden(e Entry) Problems {
	for _, other := range c.entries {
		if other.source >= e.source && len(other.Problems) > 0 && other.Problems[0].Code == "unreadable" {
			return other.Problems
		}
	}
	return nil
}

// noFlow is an ErrNoFlow in words.
type noFlow string

// Error implements error.
func (e noFlow) Error() string { return string(e) }

// Is makes it an ErrNoFlow.
func (noFlow) Is(target error) bool { return target == ErrNoFlow }
