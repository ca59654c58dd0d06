// Validates what a MockWorld answered and sent against GitHub's published
// descriptions of both.
//
//   node check.mjs exchanges.jsonl...
//
// A line is an answer (mockworld.Request), a webhook (mockworld.Delivery) or an
// operation that the world knows (mockworld.Operation), which then must have
// been seen.
// It prints one JSON object: how much was seen of what, and every violation
// once, with the number of times and the line of the first. Fields that GitHub describes nowhere are
// violations too: a client that reads one would find nothing on GitHub.
import { createReadStream, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import Ajv from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

const load = (name) => JSON.parse(readFileSync(new URL(`node_modules/@octokit/${name}/generated/api.github.com.json`, import.meta.url)))

// modern rewrites what OpenAPI 3.0 says in its own words into JSON Schema:
// nullable, and that what stands beside a $ref does not count.
function modern(x) {
  if (Array.isArray(x)) return x.map(modern)
  if (x === null || typeof x !== 'object') return x
  if (typeof x.$ref === 'string') return { $ref: x.$ref }
  const out = {}
  for (const [k, v] of Object.entries(x)) {
    if (k === 'example' || k === 'examples' || k === 'discriminator' || k === 'xml' || k === 'x-octokit') continue
    if (k === 'enum' || k === 'const' || k === 'default') out[k] = v
    else out[k] = modern(v)
  }
  if (out.nullable === true) {
    delete out.nullable
    return { anyOf: [out, { type: 'null' }] }
  }
  return out
}

function compiler(id, doc, convert) {
  const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: true, logger: false })
  formats(ajv)
  ajv.addFormat('repo.nwo', true)
  ajv.addFormat('timestamp', true)
  ajv.addSchema(convert ? { ...doc, paths: modern(doc.paths), components: modern(doc.components) } : doc, id)
  const cache = new Map()
  return (pointer) => {
    if (!cache.has(pointer)) cache.set(pointer, ajv.compile({ $ref: `${id}#${pointer}` }))
    return cache.get(pointer)
  }
}

const rest = load('openapi')
const hooks = load('openapi-webhooks')

const seen = { answers: 0, webhooks: 0, operations: {}, events: {} }
const violations = new Map()
let line = 0 // that is looked at, of all files
function complain(where, what, sample) {
  const key = `${where}: ${what}`
  const v = violations.get(key) ?? { where, what, line, times: 0, sample }
  v.times++
  violations.set(key, v)
}

const at = (doc, ref) => ref.split('/').slice(1).reduce((o, k) => o?.[decodeURIComponent(k).replaceAll('~1', '/').replaceAll('~0', '~')], doc)

// corrected mends the description where it contradicts itself or what GitHub
// documents elsewhere. One that is no longer needed is a violation, so that
// the list stays true.
const corrected = []
function correct(why, change) {
  corrected.push(why)
  if (!change()) complain('the description', `is now right without the correction: ${why}`)
}

const escape = (s) => encodeURIComponent(String(s).replaceAll('~', '~0').replaceAll('/', '~1'))
correct('the account of an installation is a user or an enterprise, not both at once', () => {
  const account = rest.paths['/app/installations'].get.responses[200].content['application/json'].schema.items.properties.account
  if (!account.allOf) return false
  account.anyOf = account.allOf
  return delete account.allOf
})
correct('the actor of an event is null when the account is gone, in one issue\'s list as in the repository\'s', () => {
  if (!rest.components.schemas['issue-event'].properties.actor.$ref.includes('nullable')) return false
  const of = Object.entries(rest.components.schemas).filter(([k, v]) => /-issue-event$/.test(k) && v.properties.actor?.$ref === '#/components/schemas/simple-user')
  for (const [, v] of of) v.properties.actor.$ref = '#/components/schemas/nullable-simple-user'
  return of.length > 0
})
correct('the body of an issue that has none is null, found by a search or not', () => {
  const body = rest.components.schemas['issue-search-result-item'].properties.body
  if (body.nullable || !rest.components.schemas.issue.properties.body.nullable) return false
  return (body.nullable = true)
})
correct('the author of a pull request whose account is gone is null, by itself as in a list', () => {
  const simple = '#/components/schemas/nullable-simple-user'
  const user = rest.components.schemas['pull-request'].properties.user
  if (user.$ref === simple || rest.components.schemas['pull-request-simple'].properties.user.$ref !== simple) return false
  return (user.$ref = simple)
})
correct('a label without description has null, on a pull request of a list as everywhere else', () => {
  const description = rest.components.schemas['pull-request-simple'].properties.labels.items.properties.description
  if (description.nullable || !rest.components.schemas.label.properties.description.nullable) return false
  return (description.nullable = true)
})
correct('the author of an issue whose account is gone is null, in the webhook of one action as of another', () => {
  let changed = 0
  for (const key of Object.keys(hooks.webhooks).filter((k) => /^issue(s|-comment)-/.test(k))) {
    const open = [hooks.webhooks[key].post.requestBody.content['application/json'].schema]
    const users = []
    for (let x; (x = open.pop());) {
      if (x.$ref) open.push(at(hooks, x.$ref.slice(1)))
      open.push(...(x.allOf ?? []))
      if (x.properties?.issue) open.push(x.properties.issue)
      if (x.properties?.user && !x.properties.issue) users.push(x.properties.user)
    }
    for (const u of users) {
      if (u.type !== 'object') continue
      u.type = ['object', 'null']
      changed++
    }
  }
  return changed > 0
})
const restSchema = compiler('rest', rest, true)
const hookSchema = compiler('hooks', hooks, false)

// operations, by the shape of their path: names of parameters differ.
const shape = (path) => path.replaceAll(/\{[^}]*\}/g, '{}')
const paths = new Map(Object.keys(rest.paths).map((p) => [shape(p), p]))
paths.set('/repos/{}/{}/contents/', '/repos/{owner}/{repo}/contents/{path}') // of the root
const webhooks = new Map()
for (const [key, item] of Object.entries(hooks.webhooks)) {
  const event = item.post.parameters?.find((p) => p.name.toLowerCase() === 'x-github-event')?.example ?? ''
  webhooks.set(item.post.operationId.replaceAll('-', '_'), key)
  if (!item.post.operationId.includes('/')) webhooks.set(event, key)
}

const deref = (x) => {
  while (x?.$ref) x = x.$ref.slice(2).split('/').reduce((o, k) => o[k.replaceAll('~1', '/').replaceAll('~0', '~')], rest)
  return x
}
const pointerOf = (x, otherwise) => (x?.$ref ? x.$ref.slice(1).split('/').map((s, i) => (i ? encodeURIComponent(s) : s)).join('/') : otherwise)

// undescribed are fields that GitHub sends although its description lacks
// them there, and what else says so.
const undescribed = [
  [/ has status$/, 'refusals carry their status as text; basic-error describes it, its sisters do not'],
  [/^GET .*\/pulls\/\{number\} 406:.* has errors$/, 'a diff that is too large is told with its field'],
  [/^GET \/meta .* has installed_version$/, 'Enterprise Server tells its version; its own description has it'],
  [/^GET \/rate_limit .* has resource$/, 'the X-RateLimit-Resource header, repeated'],
  [/(installations|performed_via_github_app).* has (client_id|user_view_type)$/, 'described of the same object elsewhere'],
  [/\/events 200:.* has state_reason$/, 'of a closed event, as on the timeline'],
]


// strange lists the fields of a value that no alternative of its schema
// names. Where a schema names none or opens itself, all are welcome.
function strange(doc, schemas, value, path, found) {
  const all = []
  const spread = (x) => {
    if (!x || typeof x !== 'object' || all.includes(x)) return
    if (x.$ref) return spread(at(doc, x.$ref.slice(1)))
    all.push(x)
    for (const k of ['anyOf', 'oneOf', 'allOf']) x[k]?.forEach(spread)
  }
  schemas.forEach(spread)
  if (Array.isArray(value)) {
    const items = all.map((x) => x.items).filter(Boolean)
    if (items.length) value.forEach((v) => strange(doc, items, v, `${path}/*`, found))
  } else if (value && typeof value === 'object') {
    const named = all.filter((x) => x.properties)
    if (!named.length || all.some((x) => x.additionalProperties && typeof x.additionalProperties === 'object' || x.additionalProperties === true)) return
    for (const [k, v] of Object.entries(value)) {
      const of = named.map((x) => x.properties[k]).filter((x) => x !== undefined)
      if (of.length) strange(doc, of, v, `${path}/${k}`, found)
      else found.add(`${path} has ${k}`)
    }
  }
}

function report(where, doc, pointer, compile, body) {
  const found = new Set()
  strange(doc, [at(doc, pointer)], body, '', found)
  for (const what of found) {
    if (!undescribed.some(([re]) => re.test(`${where}: ${what}`))) complain(where, `${what || '/'}, which GitHub does not describe`)
  }
  const validate = compile(pointer)
  if (validate(body)) return
  // Of alternatives, those that fail nearest to the leaves tell most.
  const list = validate.errors.filter((e) => !['anyOf', 'oneOf', 'if'].includes(e.keyword))
  for (const e of list.length ? list : validate.errors) {
    const at = e.instancePath.replaceAll(/\/\d+(?=\/|$)/g, '/*')
    const got = e.instancePath.split('/').slice(1).reduce((o, k) => o?.[k.replaceAll('~1', '/').replaceAll('~0', '~')], body)
    const what = e.keyword === 'required' ? `lacks ${e.params.missingProperty}`
      : e.keyword === 'additionalProperties' ? `has ${e.params.additionalProperty}`
        : `${e.message}${e.keyword === 'enum' ? ' ' + JSON.stringify(e.params.allowedValues) : ''}`
    complain(where, `${at || '/'} ${what}`, JSON.stringify(got)?.slice(0, 160))
  }
}

function answer(r) {
  if (r.fault === 'refuse' || !r.status || (!r.route && !r.response)) return // scripted, cut, or no API
  if (!r.route) return complain(`${r.method} ${r.path}`, `${r.status}: the world knows no such operation`, r.response?.slice(0, 200))
  const path = paths.get(shape(r.route.replaceAll('...', '')))
  const method = (r.method === 'HEAD' ? 'GET' : r.method).toLowerCase()
  const op = path && rest.paths[path][method]
  const where = `${r.method} ${r.route} ${r.status}`
  if (!op) return complain(where, 'GitHub describes no such operation')
  seen.answers++
  seen.operations[where] = (seen.operations[where] ?? 0) + 1
  if (r.method === 'HEAD') return r.response ? complain(where, 'has a body') : undefined
  const described = op.responses[r.status]
  // Redirects, refusals that any operation may meet, and pages of text.
  const common = { 301: 'basic-error', 307: 'basic-error', 401: 'basic-error', 403: 'basic-error', 404: 'basic-error', 410: 'basic-error', 429: 'basic-error' }
  if (r.status === 304) return r.response ? complain(where, 'has a body') : undefined
  if (!described && !common[r.status] && r.status !== 422 && r.status !== 400) return complain(where, 'GitHub describes no such status')
  const response = deref(described)
  const content = response?.content ?? {}
  const type = Object.keys(content).find((t) => t.includes('json') && !t.includes('scim'))
  if (/(diff|patch|raw|\.sha)/.test(r.accept ?? '') && r.status < 300) return
  if (!r.response) return type && r.status < 300 ? complain(where, 'has no body') : undefined
  let body
  try {
    body = JSON.parse(r.response)
  } catch (e) {
    return complain(where, `is no JSON: ${e.message}`, r.response.slice(0, 80))
  }
  let pointer
  if (type) {
    const at = described.$ref ? pointerOf(described) : `/paths/${escape(path)}/${method}/responses/${r.status}`
    pointer = `${at}/content/${escape(type)}/schema`
  } else if (r.status >= 300) {
    pointer = `/components/schemas/${r.status === 422 ? 'validation-error' : 'basic-error'}`
  } else {
    return complain(where, 'has a body where GitHub has none', r.response.slice(0, 80))
  }
  report(where, rest, pointer, restSchema, body)
}

// operation holds what the world takes against what GitHub takes.
const known = []
const undescribedInputs = new Map([
  ['GET /repos/{owner}/{repo}/issues after', 'the Link header of each page names the next one by it'],
  ['PATCH /repos/{owner}/{repo}/labels/{name} name', 'of the API before new_name; go-github still sends it'],
])
function operation(o) {
  const where = `${o.method} ${o.pattern}`
  known.push(where)
  const path = paths.get(shape(o.pattern.replaceAll('...', '')))
  const op = path && rest.paths[path][o.method.toLowerCase()]
  if (!op) return complain(where, 'GitHub describes no such operation')
  const query = [...(rest.paths[path].parameters ?? []), ...(op.parameters ?? [])].map(deref).filter((p) => p.in === 'query').map((p) => p.name)
  for (const q of o.query ?? []) if (!query.includes(q) && !undescribedInputs.has(`${where} ${q}`)) complain(where, `takes the parameter ${q}, which GitHub does not describe`)
  const fields = new Set()
  const spread = (x) => {
    x = deref(x)
    Object.keys(x?.properties ?? {}).forEach((k) => fields.add(k))
    for (const k of ['anyOf', 'oneOf', 'allOf']) x?.[k]?.forEach(spread)
  }
  Object.values(deref(op.requestBody)?.content ?? {}).forEach((c) => spread(c.schema))
  for (const f of o.fields ?? []) if (!fields.has(f) && !undescribedInputs.has(`${where} ${f}`)) complain(where, `takes the field ${f}, which GitHub does not describe`)
}

function webhook(d) {
  const name = d.action ? `${d.event}/${d.action}` : d.event
  const key = webhooks.get(name)
  if (!key) return complain(`webhook ${name}`, 'GitHub describes no such event')
  seen.webhooks++
  seen.events[name] = (seen.events[name] ?? 0) + 1
  const content = hooks.webhooks[key].post.requestBody.content
  const type = Object.keys(content).find((t) => t.includes('json'))
  report(`webhook ${name}`, hooks, `/webhooks/${escape(key)}/post/requestBody/content/${escape(type)}/schema`, hookSchema, JSON.parse(d.payload))
}

for (const file of process.argv.slice(2)) {
  for await (const text of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    line++
    if (!text) continue
    const x = JSON.parse(text)
    if (x.guid) webhook(x)
    else if (x.pattern) operation(x)
    else answer(x)
  }
}
line = 0
const met = new Set(Object.keys(seen.operations).map((o) => o.replace(/ \d+$/, '')))
for (const o of known) if (!met.has(o)) complain(o, 'was never called')
console.log(JSON.stringify({ ...seen, corrected, violations: [...violations.values()] }))
