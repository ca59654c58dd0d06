package checkpoints

// EffectKey is the beginning of the keys of all effects of a run, and of what
// else is kept of it under such keys. It ends with a slash.
func EffectKey(runID string) string { return "run/" + runID + "/" }

// ShadowKey is where what a shadow run would have done under a key is
// recorded.
func ShadowKey(key string) string { return "shadow/" + key }

// EffectsOf are the beginnings of the keys that are deleted with a run; each
// ends with a slash.
func EffectsOf(runID string) []string {
	return []string{EffectKey(runID), ShadowKey(EffectKey(runID))}
}
