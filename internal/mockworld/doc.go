// Package mockworld is a fake GitHub that speaks the wire: REST below
// {prefix}/api/v3/, git smart HTTP below {prefix}/git/, and signed webhooks.
// The production binary runs against it unchanged, told only a base URL.
//
// A World holds users, repositories (real bare git ones), issues, pull
// requests, checks, tokens, apps and hooks. Programs set it up with the Add…
// methods, let people and CI act with methods such as Label and SetCheckRun,
// inject faults with AddFault, and look at what came of it with Snapshot,
// Requests, Deliveries and Violations. Another process does the last two
// through {prefix}/_world/, which is no part of GitHub.
//
// It must not be kinder than GitHub: permissions, limits, pagination, odd
// nulls and non-atomic steps are those of the real service, and anything that
// it does not know (route, query parameter, body field) is answered 501 and
// kept as a violation.
//
// It must not know the product. It imports only the standard library and
// internal/clock, never our client code (gh, gitws, llm) and never testing: a
// bug shared by fake and client is the one bug that a fake cannot find.
package mockworld
