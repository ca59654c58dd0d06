// What a user of Octokit does, against the address and token it is told:
//
//   node octokit.mjs API TOKEN SECRET OWNER REPO ISSUE BRANCH
//
// It first prints where it takes webhooks, waits for a line, works, waits for
// the delivery of its own label, prints what it has seen, and takes webhooks
// until its input ends.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { Octokit } from '@octokit/rest'
import { Webhooks, createNodeMiddleware } from '@octokit/webhooks'

const [, , baseUrl, auth, secret, owner, repo, number, branch] = process.argv
const issue_number = Number(number)

const webhooks = new Webhooks({ secret })
const delivered = new Promise((resolve, reject) => {
  webhooks.on('issues.labeled', ({ id, payload }) => resolve({ id, label: payload.label.name, by: payload.sender.login }))
  webhooks.onError(reject)
})
const server = createServer(createNodeMiddleware(webhooks, { path: '/hook', log: { ...console, info() {}, debug() {} } }))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
console.log(JSON.stringify({ hook: `http://127.0.0.1:${server.address().port}/hook` }))

const stdin = createInterface({ input: process.stdin })
await new Promise((resolve) => stdin.once('line', resolve))
const ended = new Promise((resolve) => stdin.once('close', resolve))

const octokit = new Octokit({ auth, baseUrl })
const at = { owner, repo }
const seen = {}
seen.login = (await octokit.users.getAuthenticated()).data.login
seen.issues = (await octokit.paginate(octokit.issues.listForRepo, { ...at, state: 'all', per_page: 1 })).map((i) => i.title)
seen.labels = (await octokit.issues.addLabels({ ...at, issue_number, labels: ['by octokit'] })).data.map((l) => l.name)
seen.comment = (await octokit.issues.createComment({ ...at, issue_number, body: 'By Octokit.' })).data.body
const pull = (await octokit.pulls.create({ ...at, title: 'By Octokit', head: branch, base: 'main', body: `Closes #${number}` })).data
seen.pull = pull.number
await octokit.pulls.requestReviewers({ ...at, pull_number: pull.number, reviewers: ['rita'] })
seen.files = (await octokit.pulls.listFiles({ ...at, pull_number: pull.number })).data.map((f) => f.filename)
seen.review = (await octokit.pulls.createReview({ ...at, pull_number: pull.number, event: 'COMMENT', body: 'Read.', comments: [{ path: seen.files[0], line: 1, body: 'Here.' }] })).data.state
seen.line = (await octokit.pulls.createReviewComment({ ...at, pull_number: pull.number, commit_id: pull.head.sha, path: seen.files[0], line: 1, side: 'RIGHT', body: 'And here.' })).data.line
seen.diff = (await octokit.pulls.get({ ...at, pull_number: pull.number, mediaType: { format: 'diff' } })).data.slice(0, 10)
seen.found = (await octokit.search.issuesAndPullRequests({ q: `repo:${owner}/${repo} is:issue label:"by octokit"` })).data.total_count
seen.missing = await octokit.issues.get({ ...at, issue_number: 9999 }).then(() => 200, (e) => e.status)
seen.delivery = await delivered
console.log(JSON.stringify(seen))
await ended
server.close()
server.closeAllConnections()
