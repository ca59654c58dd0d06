package scenario

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// stopTimeout is how long a process may take to end.
const stopTimeout = 20 * time.Second

// keeper starts, stops and restarts the one process under test.
type keeper struct {
	launcher Launcher
	bot      Bot
	note     func(kind, format string, args ...any)
	trouble  func(format string, args ...any)

	mu       sync.Mutex
	current  Process // nil while down
	last     Process // the newest, running or not
	starts   int
	expected bool // the end of current was asked for
	exited   bool // the newest ended by itself
	wg       sync.WaitGroup
}

// start starts a process and watches over its end.
func (k *keeper) start(ctx context.Context) error {
	k.mu.Lock()
	if k.current != nil {
		k.mu.Unlock()
		return fmt.Errorf("starting the bot: it runs already")
	}
	k.mu.Unlock()
	// Without the lock: the program talks to the world while it starts.
	p, err := k.launcher.Start(ctx, k.bot)
	if err != nil {
		return fmt.Errorf("starting the bot: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.last, k.expected, k.exited = p, p, false, false
	k.starts++
	k.note("bot", "started (start %d)", k.starts)
	k.wg.Add(1)
	go func() {
		defer k.wg.Done()
		// Not by ctx: the end of the story is not the end of the process.
		err := p.Wait(context.WithoutCancel(ctx))
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.current != p {
			return
		}
		k.current = nil
		if ctx.Err() == nil && !k.expected {
			k.exited = true
			k.note("bot", "ended by itself: %v", err)
		}
	}()
	return nil
}

// stop ends the process by "kill" or "term" and returns when it is gone; one
// that does not run is no error.
func (k *keeper) stop(ctx context.Context, how string) error {
	k.mu.Lock()
	p := k.current
	k.expected = true
	k.mu.Unlock()
	if p == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	k.note("bot", "%s", map[string]string{"kill": "killed", "term": "asked to end"}[how])
	if how == "kill" {
		p.Kill()
		_ = p.Wait(ctx) // a killed process never exits with 0
	} else {
		p.Terminate()
		if err := p.Wait(ctx); err != nil {
			p.Kill()
			_ = p.Wait(context.WithoutCancel(ctx)) // a killed process ends
			return fmt.Errorf("ending the bot: asked to end, it did not exit with 0 within %s: %w", stopTimeout, err)
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("ending the bot: it was still there after %s", stopTimeout)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == p {
		k.current = nil
	}
	return nil
}

// killed kills and, unless down, starts again on another goroutine. It is
// called in the middle of a request of that process.
func (k *keeper) killed(ctx context.Context, down bool) {
	if running, _, _ := k.state(); !running {
		k.trouble("kill_bot struck while the bot was starting or down")
		return
	}
	if err := k.stop(ctx, "kill"); err != nil {
		k.trouble("%v", err)
		return
	}
	if down {
		return
	}
	k.wg.Add(1)
	go func() {
		defer k.wg.Done()
		if err := k.start(ctx); err != nil && ctx.Err() == nil {
			k.trouble("%v", err)
		}
	}()
}

// second starts another process on the same data, which must refuse.
func (k *keeper) second(ctx context.Context, want string) error {
	p, err := k.launcher.Start(ctx, k.bot)
	if err == nil {
		p.Kill()
		_ = p.Wait(ctx)
		return fmt.Errorf("a second bot on the same data started, want a refusal with %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		return fmt.Errorf("a second bot refused, but not with %q: %w", want, err)
	}
	return nil
}

func (k *keeper) webhookURL() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return ""
	}
	return k.current.WebhookURL()
}

func (k *keeper) state() (running bool, exited bool, starts int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current != nil, k.exited, k.starts
}

func (k *keeper) runs(ctx context.Context) ([]RunView, error) {
	k.mu.Lock()
	p := k.last
	k.mu.Unlock()
	if p == nil {
		return nil, nil
	}
	return p.Runs(ctx)
}
