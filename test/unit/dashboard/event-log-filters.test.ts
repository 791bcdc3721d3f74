import { expect } from 'chai';
import fc from 'fast-check';
import { LogConditions } from '../../../src/protocol/index.ts';
import {
  parseEventIds,
  onlyEventId,
  matchesEventIds,
  deviceConditions,
  localMatcher,
  matcherOf,
  valueOf,
  withField,
  withoutField,
  narrowings,
} from '../../../src/dashboard/features/event-logs/log-filter.ts';
import {
  isBare,
  LogSearch,
  rememberedPart,
  viewOf,
} from '../../../src/dashboard/features/event-logs/log-search.ts';
import { endsOf } from '../../../src/dashboard/features/event-logs/log-time.ts';
import { rowOf, T0 } from './log-rows.ts';

const NAMES = fc.constantFrom('log', 'level', 'source', 'ids', 'text', 'range', 'from', 'to', 'only', 'not');
const searchOf = (value: unknown): LogSearch => LogSearch.parse(value);

describe('the conditions of the event log viewer', () => {
  describe('a list of event ids', () => {
    it('has single ids and ranges, both ends included', () => {
      const ids = parseEventIds(' 7, 1000-1002;4624 ');
      expect(ids).to.deep.equal([
        [7, 7],
        [1000, 1002],
        [4624, 4624],
      ]);
      const shown = ['6', '7', '999', '1000', '1002', '1003', ''].filter((id) =>
        matchesEventIds(ids ?? [], id),
      );
      expect(shown).to.deep.equal(['7', '1000', '1002']);
    });

    it('is refused if it is anything else', () => {
      for (const text of ['x', '7-', '-7', '9-3', '1.5', '7 8', '12345678901']) {
        expect(parseEventIds(text), text).to.equal(undefined);
      }
    });

    it('goes to the device if it is one id, and is applied here otherwise', () => {
      expect(onlyEventId(parseEventIds('7') ?? [])).to.equal(7);
      const one = searchOf({ ids: '7' });
      expect(deviceConditions(one, T0)).to.deep.equal({ eventId: 7 });
      expect(localMatcher(one)).to.equal(undefined);
      const many = searchOf({ ids: '7, 9-10' });
      expect(deviceConditions(many, T0)).to.deep.equal({});
      const shown = [7, 8, 9, 10].filter((eventId) => localMatcher(many)?.(rowOf(1, { eventId })));
      expect(shown).to.deep.equal([7, 9, 10]);
    });
  });

  describe('in the address', () => {
    it('are read as they were written, whatever else the address has', () => {
      const search = {
        log: 'System',
        level: ['error'],
        source: 'sshd',
        ids: '7',
        text: 'x',
        range: '1h',
        record: 3,
      };
      expect(searchOf({ ...search, tab: 'logs', org: 'x' })).to.deep.equal(search);
    });

    it('lose only what cannot be read', () => {
      const broken = {
        log: 'System',
        level: ['loud'],
        text: { a: 1 },
        not: ['no colon'],
        record: -1,
        stored: 'yes',
      };
      expect(viewOf(searchOf(broken))).to.deep.equal({ log: 'System' });
      expect(searchOf({ ids: 7, text: 404 })).to.deep.include({ ids: '7', text: '404' });
    });

    it('never make a query that the protocol refuses', () => {
      fc.assert(
        fc.property(fc.dictionary(NAMES, fc.anything({ maxDepth: 1 })), (value) => {
          const search = searchOf(value);
          expect(LogConditions.safeParse(deviceConditions(search, T0)).success).to.equal(true);
        }),
        { numRuns: 100 },
      );
      const long = 'x'.repeat(100_000);
      const hostile = searchOf({
        source: long,
        text: long,
        ids: '1',
        level: ['error'],
        from: 'never',
        to: long,
        range: '9y',
      });
      expect(LogConditions.safeParse(deviceConditions(hostile, T0)).success).to.equal(true);
    });

    it('are remembered for the next device without what belongs to one case', () => {
      const search = searchOf({
        log: 'System',
        level: ['error'],
        text: 'Miller',
        from: '2026-01-01',
        record: 3,
      });
      expect(rememberedPart(search)).to.deep.equal({ log: 'System', level: ['error'] });
      expect(isBare(searchOf({ org: 'x' }))).to.equal(true);
      expect(isBare(search)).to.equal(false);
    });
  });

  it('turn times into ends: presets move with the clock, and all levels are no condition', () => {
    expect(endsOf({ range: '1h' }, T0)).to.deep.equal({ startTime: '2026-01-31T07:00:00.000Z' });
    expect(endsOf({ from: '2026-01-31T06:00:00+01:00', to: 'later' }, T0)).to.deep.equal({
      startTime: '2026-01-31T05:00:00.000Z',
    });
    const all = searchOf({ level: ['critical', 'error', 'warning', 'information', 'verbose'] });
    expect(deviceConditions(all, T0)).to.deep.equal({});
  });

  it('take any field of an entry, to keep it or to leave it out', () => {
    const row = rowOf(1, { user: 'root', level: 'error', eventId: -1 });
    const other = rowOf(2, { user: 'web', level: 'warning', source: 'cron', category: 'x', computer: 'y' });
    for (const field of ['level', 'source', 'eventId', 'user', 'computer', 'category', 'message'] as const) {
      const value = valueOf(row, field);
      const without = { ...searchOf({}), ...withoutField({}, field, value) };
      expect(matcherOf(searchOf(without))(row), `without ${field}`).to.equal(false);
      const kept = searchOf(withField({}, field, value));
      expect(matcherOf(kept)(row), `only ${field}`).to.equal(true);
      if (field === 'eventId') continue;
      expect(matcherOf(kept)(other), `only ${field}`).to.equal(false);
      expect(matcherOf(searchOf(without))(other), `without ${field}`).to.equal(true);
    }
  });

  it('leave out a message of any length, and an absent user', () => {
    const long = rowOf(1, { message: 'y'.repeat(5_000) });
    expect(matcherOf(searchOf(withoutField({}, 'message', long.message)))(long)).to.equal(false);
    const nobody = searchOf(withoutField({}, 'user', ''));
    expect(matcherOf(nobody)(rowOf(1))).to.equal(false);
    expect(matcherOf(nobody)(rowOf(1, { user: 'root' }))).to.equal(true);
  });

  it('can always be narrowed, until they are narrow', () => {
    let search = searchOf({ text: 'x' });
    for (let step = 0; step < 10; step++) {
      const [next] = narrowings(search);
      if (next === undefined) break;
      search = searchOf({ ...search, ...next.change });
    }
    expect(narrowings(search)).to.deep.equal([]);
    expect(viewOf(search)).to.deep.equal({ range: '15m', level: ['critical', 'error'] });
  });
});
