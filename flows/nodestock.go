package flows

import "go.yaml.in/yaml/v3"

// nodeStock makes nodes many at a time.
type nodeStock struct{ nodes []yaml.Node }

func (s *nodeStock) take() *yaml.Node {
	if len(s.nodes) == 0 {
		s.nodes = make([]yaml.Node, 128)
	}
	n := &s.nodes[0]
	s.nodes = s.nodes[1:]
	return n
}
