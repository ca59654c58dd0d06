# Run `make` for this list.

.PHONY: help demo test check generate fuzz bench

help: ## Show the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

demo: ## Walk the demo issue through the whole pipeline, offline
	go run ./cmd/pipelinebot demo

test: ## Run all tests
	go test ./...

check: ## What CI does, without the race detector
	RACE= .ci/run

generate: ## Rewrite the files made from code: docs, schemas, golden files
	go test ./labels ./internal/config ./flows ./phases/triage ./phases/plan ./phases/implement ./phases/review ./phases/status ./internal/coverage ./internal/docs -update

fuzz: ## Fuzz every parser for 20 s each
	.ci/fuzz 20s

bench: ## Measure everything and write docs/benchmarks.md; wants an idle machine
	COUNT=$(or $(COUNT),5) BENCHTIME=$(or $(BENCHTIME),2s) .ci/bench
