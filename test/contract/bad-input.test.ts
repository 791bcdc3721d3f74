import { expect } from 'chai';
import { z } from 'zod';
import { describeBadInput } from './asked-bodies.ts';
import { fieldsOfBodies, fieldsOfQueries, type HOSTILE_TEXT, textual } from './bad-values.ts';
import { allRows as rows, type Field, nameOf, oneOfEach } from './row-kinds.ts';

/** What no client should send: which schemas take what, for every field, and over HTTP one field of each kind. */

/** What a text may be that a person writes. Everything else that is tried is refused by the schema of every text. */
const TAKEN_BY_SOME = [
  'right-to-left marks',
  'an emoji, and marks that join',
  'nothing',
  'blanks',
  'a slash',
  'what SQL and LIKE take for more',
  'a name of every object',
] satisfies (keyof typeof HOSTILE_TEXT)[];
/** Fields that take 10,000 characters. */
const LONG = new Set(['content', 'certificate', 'metadataXml']);
/** Texts that are never stored as they are sent. */
const isNotStored = ({ method, path, field }: Field) =>
  // Only hashed, so anything may stand in them.
  /^(.*password|.*token|code|session)$/i.test(field) ||
  // Reports of agents are cleaned rather than refused.
  (path.startsWith('/agents/') && field !== 'machineId') ||
  // The service reads it as an id, and in the scope of an organization ignores it.
  (method === 'post' && path === '/filters' && field === 'orgId');
/** Reports of agents, of which what this release does not know is dropped, whatever it holds. */
const DROPS_UNKNOWN = [
  'POST /agents/enroll: hardware',
  'POST /agents/enroll: network',
  'POST /agents/:id/inventory: hardware',
  'POST /agents/:id/inventory: network',
];

describe('the schemas of bodies and queries', () => {
  const bodies = fieldsOfBodies(
    rows.filter(({ body, bodyType }) => body !== undefined && bodyType !== 'form'),
  );
  const named = ({ method, path, field }: Pick<Field, 'method' | 'path' | 'field'>) =>
    `${nameOf({ method, path })}: ${field}`;

  it('name each text that is too long, that Postgres cannot store, or that is none', () => {
    for (const one of bodies.filter((each) => textual(each.shape) && !isNotStored(each))) {
      // Null leaves out what is optional (request-fields.test.ts).
      const taken = one.takes.filter(
        (what) => what !== 'null' && !(LONG.has(one.field) && what === '10,000 characters'),
      );
      expect(TAKEN_BY_SOME, named(one)).to.include.members(taken);
    }
  });

  it('name each list and each object that is none, or that holds a text which Postgres cannot store', () => {
    const others = bodies.filter(({ shape, takes }) => !textual(shape) && takes.length > 0);
    expect(others.map(named)).to.deep.equal(DROPS_UNKNOWN);
  });

  it('name each text of a query that Postgres cannot store, but for the questions that only a device is asked', () => {
    const taken = fieldsOfQueries(rows)
      .filter(
        ({ field, takes }) => !/^(page|limit)$/.test(field) && takes.some((value) => value.includes('%00')),
      )
      .map(named);
    expect(taken).to.deep.equal([
      'GET /system-tools/devices/:deviceId/eventlogs/:name/events: source',
      'GET /system-tools/devices/:deviceId/eventlogs/:name/events: text',
      'GET /devices/:deviceId/eventlogs/:name/events: source',
      'GET /devices/:deviceId/eventlogs/:name/events: text',
    ]);
  });

  it('of a name that no field has is refused wherever leaving out a field has a meaning', () => {
    const lenient = rows
      .filter(({ body }) => body instanceof z.ZodObject)
      .filter(({ body }) => {
        const fields = Object.values((body as z.ZodObject).shape);
        const hasChoice = fields.some((field) => field.safeParse(undefined).success);
        return hasChoice && (body as z.ZodObject).def.catchall === undefined;
      });
    // Agents of a later release may report more than this one knows.
    expect(lenient.map(nameOf)).to.deep.equal([
      'POST /agents/enroll',
      'POST /agents/:id/heartbeat',
      'POST /agents/:id/watchdog-report',
      'POST /agents/:id/inventory',
    ]);
  });
});

describeBadInput('bad input', oneOfEach);
