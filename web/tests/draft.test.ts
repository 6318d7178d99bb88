import { describe, expect, test } from 'vitest'
import { bodyOf, check, commandLine, empty, placed } from '../src/lib/draft'
import { grouped, optionsOf } from '../src/lib/options'

const options = optionsOf({
  source: { type: 'string' },
  max_depth: {
    anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }],
    title: 'Max depth',
    description: 'As `min_size`.',
    'x-group': 'Selection',
    'x-help': 'As “Min size”.',
  },
  rules: { anyOf: [{ type: 'array' }, { type: 'null' }], examples: [['- *', '+ *.gz']] },
  tags: { anyOf: [{ type: 'object' }, { type: 'null' }] },
  restore: { type: 'boolean', description: 'Restores.' },
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
    [{ places: [{ where: 'body.transfer.max_depth', text: 'no' }] }, { max_depth: 'no' }],
    [{ places: [{ where: 'body.cron', text: 'no' }] }, { cron: 'no' }],
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
  expect(options[0]).toMatchObject({ title: 'Max depth', help: 'As “Min size”.' })
  expect(options[3]).toMatchObject({ title: 'restore', help: 'Restores.' })
  expect(grouped(options).map((group) => [group.heading, group.options.length])).toEqual([
    ['Selection', 1],
    ['Transfer', 5],
  ])
})
