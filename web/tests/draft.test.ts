import { describe, expect, test } from 'vitest'
import { bodyOf, check, commandLine, empty, placed } from '../src/lib/draft'
import { forReaders, grouped, optionsOf, title } from '../src/lib/options'

const options = optionsOf({
  source: { type: 'string' },
  max_depth: { anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }], description: 'As `min_size`.\n\nMore.' },
  rules: { anyOf: [{ type: 'array' }, { type: 'null' }], examples: [['- *', '+ *.gz']] },
  tags: { anyOf: [{ type: 'object' }, { type: 'null' }] },
  restore: { type: 'boolean' },
  preflight: { type: 'boolean' },
  storage_class: { anyOf: [{ type: 'string' }, { type: 'null' }] },
})
const right = empty('s3://vendor/run42/', 's3://ours/run42/')

describe('a draft', () => {
  test.each([
    ['', 's3://ours/', 'source'],
    ['s3://', 's3://ours/', 'source'],
    ['vendor/run42', 's3://ours/', 'source'],
    ['s3://vendor/', '', 'target'],
    ['s3://vendor/', 's3://vendor/', 'target'],
  ])('from %j to %j is wrong at its %s', (source, target, field) => {
    expect(Object.keys(check(empty(source, target), options))).toEqual([field])
  })

  test('is wrong at the option that is', () => {
    const bad = { ...right, labels: 'Project=X', options: { max_depth: '0', tags: 'a=1\nb' } }
    expect(Object.keys(check(bad, options)).sort()).toEqual(['labels', 'max_depth', 'tags'])
    expect(check({ ...right, labels: 'project=X, run=4=2', options: { max_depth: ' 3 ' } }, options)).toEqual({})
    expect(check(empty('/data/run42', 's3://ours/'), options)).toEqual({})
  })

  test('is a request and a command line with what was written, and no more', () => {
    const given = { rules: '- *\n\n+ *.gz', tags: 'a=b c', restore: true, preflight: false, max_depth: '2' }
    const body = bodyOf({ ...right, name: 'Run 42', labels: 'project=X', options: given }, options)
    expect(body).toEqual({
      source: 's3://vendor/run42/',
      target: 's3://ours/run42/',
      name: 'Run 42',
      labels: { project: 'X' },
      max_depth: 2,
      rules: ['- *', '+ *.gz'],
      tags: { a: 'b c' },
      restore: true,
      preflight: false,
    })
    expect(commandLine(body)).toBe(
      "seqferry cp s3://vendor/run42/ s3://ours/run42/ --name 'Run 42' --label project=X --max-depth 2 " +
        "--exclude '*' --include '*.gz' --tags 'a=b c' --restore --no-preflight",
    )
    expect(bodyOf({ ...right, options: { restore: false, preflight: true, storage_class: ' ' } }, options)).toEqual({
      source: 's3://vendor/run42/',
      target: 's3://ours/run42/',
    })
  })

  test.each([
    [{ places: [{ where: 'body.transfer.max_depth', message: 'no' }] }, { max_depth: 'no' }],
    [{ places: [{ where: 'body.cron', message: 'no' }] }, { cron: 'no' }],
    [{ places: [{ where: 'body.settle', message: "--settle 'x' is no age" }] }, { settle: "'x' is no age" }],
    [
      { places: [{ where: 'body.max_bandwidth', message: "--max-bandwidth: 'x' is not a size" }] },
      { max_bandwidth: "'x' is not a size" },
    ],
    [
      { places: [{ where: 'body.acl', message: '--acl and --grants cannot be had together' }] },
      { acl: '“ACL” and “Grants” cannot be had together' },
    ],
    [
      { places: [{ where: 'body.priority', message: 'Input should be 10 or less' }] },
      { priority: 'It should be 10 or less' },
    ],
    [{ message: 'Out of order' }, { '': 'Out of order' }],
  ])('shows %j beside %j', (problem, places) => {
    const error = { places: [], message: '', ...problem }
    expect(placed(error)).toEqual(places)
  })
})

test('options have words, kinds and headings', () => {
  expect(options.map((one) => [one.name, one.kind])).toEqual([
    ['max_depth', 'whole'],
    ['rules', 'lines'],
    ['tags', 'pairs'],
    ['restore', 'flag'],
    ['preflight', 'flag'],
    ['storage_class', 'text'],
  ])
  expect(options[0]?.help).toBe("As 'Min size'.")
  expect([title('source_endpoint_url'), title('sse_c_key'), title('tpslimit')]).toEqual([
    'Source endpoint URL',
    'SSE-C key',
    'Requests per second',
  ])
  expect(grouped(options).map((group) => [group.heading, group.options.length])).toEqual([
    ['Selection of objects', 3],
    ['Execution', 1],
    ['Attributes of the target objects', 2],
  ])
})

test.each([
  ['Check the network, then run the same command again.', 'Check the network, then retry it.'],
  ['Run the same unpack again; it goes on.', 'Retry it; it goes on.'],
  [
    'It is archived: run the same command with --restore, which waits.',
    'It is archived: start a new transfer with “Restore”, which waits.',
  ],
  ['Give s3:PutObject with --sse-c-key.', 'Give s3:PutObject with “SSE-C key”.'],
  ['run--41/a.bam is not there', 'run--41/a.bam is not there'],
])('%j is told as %j', (text, told) => {
  expect(forReaders(text)).toBe(told)
})
