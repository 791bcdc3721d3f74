import { expect } from 'chai';
import fc from 'fast-check';
import {
  type ChainSnapshot,
  linkUp,
  positionOf,
  withWhatTheyNeed,
  chainsOf,
  planInstant,
  planSnapshot,
} from '../../../../src/features/backup/database-chains.ts';
import { chainEndsOf, decideType } from '../../../../src/features/backup/database-chain-state.ts';
import { DatabaseDetails } from '../../../../src/protocol/index.ts';

const START = Date.UTC(2026, 10, 1);
const MINUTE_MS = 60_000;
const at = (minute: number) => new Date(START + minute * MINUTE_MS);

/** A snapshot that was made at a minute. By then, the log has reached `minute * 100`. */
function snapshot(id: string, minute: number, made: Partial<DatabaseDetails>): ChainSnapshot {
  const isLog = made.backupType === 'log';
  return {
    id,
    receivedAt: at(minute),
    details: {
      kind: 'database',
      engine: 'postgresql',
      instance: '/run/a',
      databases: [],
      backupType: 'full',
      version: '15.8',
      branch: '1/1',
      from: null,
      to: null,
      basedOn: null,
      recoverableFrom: isLog ? null : at(minute).toISOString(),
      recoverableTo: at(minute).toISOString(),
      ...made,
    },
  };
}
const hex = (position: number) => `0/${position.toString(16).toUpperCase()}`;
const full = (id: string, minute: number, given: Partial<DatabaseDetails> = {}) =>
  snapshot(id, minute, { from: hex(minute * 100 - 50), to: hex(minute * 100), ...given });
const log = (id: string, from: number, to: number, given: Partial<DatabaseDetails> = {}) =>
  snapshot(id, to, { backupType: 'log', from: hex(from * 100), to: hex(to * 100), ...given });

const ids = (snapshots: readonly ChainSnapshot[]) => snapshots.map(({ id }) => id);
const pathOf = (plan: ReturnType<typeof planSnapshot>) => ('path' in plan ? ids(plan.path) : plan.refusal);

describe('chains of backups of databases', () => {
  const chain = [full('f', 1), log('a', 1, 2), log('b', 2, 3), log('c', 3, 4)];

  it('are a full backup and the logs that continue it, in whatever order they are listed', () => {
    const { chains, broken } = chainsOf([...chain].reverse());
    expect(chains.map(({ snapshots }) => ids(snapshots))).to.deep.equal([['f', 'a', 'b', 'c']]);
    expect(chains[0]!.ranges).to.deep.equal([{ from: at(1), to: at(4) }]);
    expect(broken).to.deep.equal([]);
    expect(pathOf(planSnapshot(chain, 'b'))).to.deep.equal(['f', 'a', 'b']);
  });

  it('say what the newest of each server of databases is worth, and not what old chains were', () => {
    expect(chainEndsOf(chain)).to.deep.equal({ restorableAt: at(4), brokenBecause: null });
    const torn = [full('f', 1), log('a', 1, 2), log('c', 3, 4)];
    const ends = chainEndsOf(torn);
    expect(ends.restorableAt).to.deep.equal(at(2));
    expect(ends.brokenBecause).to.match(/logs before it are missing/);
    expect(chainEndsOf([...torn, full('g', 5)])).to.deep.equal({ restorableAt: at(5), brokenBecause: null });
    const beside = [full('h', 9, { instance: '/run/b' }), ...torn];
    expect(chainEndsOf(beside).brokenBecause).to.match(/logs before it are missing/);
    expect(chainEndsOf([])).to.deep.equal({ restorableAt: null, brokenBecause: null });
  });

  it('end if a log is missing, and go on with the next full backup', () => {
    const [first, , ...rest] = chain as [ChainSnapshot, ChainSnapshot, ...ChainSnapshot[]];
    const { chains, broken } = chainsOf([first, ...rest, full('g', 6), log('d', 6, 7)]);
    expect(chains.map(({ snapshots }) => ids(snapshots))).to.deep.equal([['g', 'd'], ['f']]);
    expect(broken.map(({ snapshot: { id } }) => id)).to.deep.equal(['b', 'c']);
    expect(pathOf(planSnapshot([first, ...rest], 'c'))).to.match(/logs before it are missing/);
  });

  it('join on one timeline of one server only', () => {
    const apart: [string, Partial<DatabaseDetails>][] = [
      ['branch', { branch: '1/2' }],
      ['cluster', { branch: '2/1' }],
      ['instance', { instance: '/run/b' }],
      ['engine', { engine: 'mariadb', from: '100', to: '200' }],
    ];
    for (const [what, given] of apart) {
      const { broken } = chainsOf([full('f', 1), log('a', 1, 2, given)]);
      expect(ids(broken.map((each) => each.snapshot)), what).to.deep.equal(['a']);
    }
  });

  it('restore an instant with the fewest logs, of the newest full backup before it', () => {
    const two = [...chain, full('g', 5), log('d', 4, 6)];
    expect(pathOf(planInstant(two, 'f', at(2.5)))).to.deep.equal(['f', 'a', 'b']);
    expect(pathOf(planInstant(two, 'f', at(4.5)))).to.deep.equal(['f', 'a', 'b', 'c', 'd']);
    expect(pathOf(planInstant(two, 'f', at(5.5)))).to.deep.equal(['g', 'd']);
    expect(pathOf(planInstant(two, 'f', at(0.5)))).to.match(/2026-11-01T00:01:00.000Z to/);
    expect(pathOf(planInstant(two, 'f', at(6.5)))).to.match(/cannot be restored/);
    expect(pathOf(planInstant([full('f', 1)], 'f', at(1)))).to.match(/no log/);
  });

  it('name five ranges of instants that can be restored, and how many more there are', () => {
    const seven = Array.from({ length: 7 }, (_, n) => [
      full(`f${n}`, 10 * n + 1),
      log(`l${n}`, 10 * n + 1, 10 * n + 2),
    ]);
    const { refusal } = planInstant(seven.flat(), 'f0', at(75)) as { refusal: string };
    expect(refusal.match(/ to /g)).to.have.length(5);
    expect(refusal).to.match(/ and 2 more\.$/);
  });

  it('have differential backups that need their full one, and no instants between them', () => {
    const made = { engine: 'mariadb', branch: null } as const;
    const whole = (id: string, minute: number) => full(id, minute, { ...made, from: '0', to: `${minute}00` });
    const differential = (id: string, minute: number, basedOn: string) =>
      full(id, minute, { ...made, backupType: 'differential', from: basedOn, to: `${minute}00`, basedOn });
    const all = [whole('f', 1), differential('a', 2, '100'), differential('b', 3, '100')];
    expect(chainsOf(all).chains[0]).to.deep.include({ ranges: [] });
    expect(pathOf(planSnapshot(all, 'b'))).to.deep.equal(['f', 'b']);
    expect(pathOf(planSnapshot([...all, differential('c', 4, '101')], 'c'))).to.match(/full backup/);
    expect(pathOf(planInstant(all, 'b', at(2)))).to.match(/no point in time/);
  });

  it('compare positions of 25 digits, and refuse what is no position', () => {
    expect(positionOf('9999999999999999999999998')).to.equal(9999999999999999999999998n);
    expect(positionOf('1/0') - positionOf('0/FFFFFFFF')).to.equal(1n);
    const parse = (given: object) => DatabaseDetails.safeParse({ ...full('f', 1).details, ...given }).success;
    expect(parse({})).to.equal(true);
    for (const to of ['-1', '0/-1', '1e9', '0x10', '1/2/3', '9'.repeat(26), '0/123456789', '']) {
      expect(parse({ to }), to).to.equal(false);
    }
    expect(parse({ databases: Array.from({ length: 1_000_000 }, () => 'x') })).to.equal(false);
    expect(parse({ recoverableTo: 'yesterday' })).to.equal(false);
    expect(parse({ recoverableTo: '-000001-01-01T00:00:00Z' })).to.equal(false);
    expect(chainsOf([full('f', 1, { to: hex(1) })]).broken).to.have.length(1);
  });

  describe('of a server that works for a while', () => {
    /** What happens: a full backup, a log, or some minutes without one. Some snapshots are lost. */
    const event = fc.record({
      type: fc.constantFrom('full', 'log', 'log', 'log', 'nothing'),
      isLost: fc.boolean().map((first) => first && true),
      overlaps: fc.integer({ min: 0, max: 2 }),
    });
    const history = fc.array(event, { minLength: 1, maxLength: 25 }).map((events) => {
      const made: ChainSnapshot[] = [];
      let reached = 0;
      for (const [index, { type, isLost, overlaps }] of events.entries()) {
        const minute = index + 1;
        const id = `s${minute}`;
        if (type === 'nothing') continue;
        const one = type === 'full' ? full(id, minute) : log(id, Math.max(0, reached - overlaps), minute);
        if (type === 'log' || reached === 0) reached = minute;
        if (!isLost || index % 3 > 0) made.push(one);
      }
      return made;
    });

    const isWhole = (path: readonly ChainSnapshot[]) =>
      path.every(({ details }, index) => {
        const before = path[index - 1]?.details;
        return index === 0
          ? details.backupType === 'full'
          : details.backupType === 'log' && positionOf(details.from!) <= positionOf(before!.to!);
      });

    it('every plan begins with a full backup and has no gap, and each instant of a range has one', () => {
      fc.assert(
        fc.property(history, fc.integer({ min: 0, max: 60 }), (snapshots, half) => {
          const { chains, broken } = chainsOf(snapshots);
          for (const { id } of snapshots) {
            const plan = planSnapshot(snapshots, id);
            const isBroken = broken.some((each) => each.snapshot.id === id);
            expect('refusal' in plan).to.equal(isBroken);
            if ('path' in plan) expect(isWhole(plan.path) && plan.path.at(-1)!.id === id).to.equal(true);
          }
          const instant = at(half / 2);
          const inRange = chains.some(({ ranges }) =>
            ranges.some(({ from, to }) => from <= instant && instant <= to),
          );
          const [some] = snapshots;
          const plan = some === undefined ? { refusal: '' } : planInstant(snapshots, some.id, instant);
          expect('path' in plan).to.equal(inRange);
          if ('path' in plan) {
            expect(isWhole(plan.path)).to.equal(true);
            expect(Date.parse(plan.path[0]!.details.recoverableFrom!)).to.be.at.most(instant.getTime());
            expect(Date.parse(plan.path.at(-1)!.details.recoverableTo!)).to.be.at.least(instant.getTime());
          }
        }),
        { numRuns: 500 },
      );
    });

    it('what is kept can be restored when everything else is gone', () => {
      fc.assert(
        fc.property(history, fc.array(fc.nat(30), { maxLength: 4 }), (snapshots, chosen) => {
          const kept = new Set(
            chosen.flatMap((index) => snapshots[index % (snapshots.length || 1)]?.id ?? []),
          );
          const stays = withWhatTheyNeed(kept, snapshots);
          const left = snapshots.filter(({ id }) => stays.has(id));
          for (const id of kept) {
            expect('path' in planSnapshot(left, id)).to.equal('path' in planSnapshot(snapshots, id));
          }
          // Nothing else stays for it.
          const needed = new Set([...kept].flatMap((id) => pathOf(planSnapshot(snapshots, id)) as string[]));
          expect([...stays].every((id) => kept.has(id) || needed.has(id))).to.equal(true);
          expect(linkUp(left).links.length).to.be.at.most(left.length);
        }),
        { numRuns: 500 },
      );
    });
  });
});

describe('the type of the next backup of a database', () => {
  const sources = { engine: 'postgresql', fullEveryDays: 7, between: 'log' } as const;
  const chain = [full('f', 1), log('a', 1, 2)];
  const decide = (given: Partial<Parameters<typeof decideType>[1]> = {}, of: object = {}) =>
    decideType(
      { ...sources, ...of },
      {
        snapshots: chain,
        wanted: null,
        isChainBroken: false,
        now: at(10),
        ...given,
      },
    );

  it('is a log that continues the newest one', () => {
    const decided = decide();
    expect(decided).to.deep.include({ backupType: 'log' });
    expect((decided as { previous: DatabaseDetails }).previous.to).to.equal(hex(200));
  });

  it('is a full one if there is none, if it is old, and if the chain is broken', () => {
    for (const [given, of] of [
      [{ snapshots: [] }],
      [{ now: new Date(START + 7 * 86_400_000 + MINUTE_MS) }],
      [{ isChainBroken: true }],
      [{}, { between: 'none' }],
      [{}, { instance: '/run/another' }],
      [{ wanted: 'full' }],
    ] as const) {
      expect(decide(given, of), JSON.stringify([given, of])).to.deep.include({ backupType: 'full' });
    }
  });

  it('is found in a chain of ten thousand logs, as a device gone bad may have reported them', () => {
    const logs = Array.from({ length: 10_000 }, (_, place) => log(`log ${place}`, place + 1, place + 2));
    const decided = decide({ snapshots: [full('f', 1), ...logs], now: at(20) });
    expect(decided).to.deep.include({ backupType: 'full', reason: 'The chain has 10000 logs.' });
    expect(pathOf(planSnapshot([full('f', 1), ...logs], 'log 9999'))).to.have.length(10_001);
    const increments = logs.map(({ id }, place) =>
      snapshot(id, place + 2, {
        backupType: 'differential',
        from: hex(100),
        to: hex((place + 2) * 100),
        basedOn: hex(100),
      }),
    );
    expect(
      chainsOf([full('f', 1), ...increments]).chains.map(({ snapshots }) => snapshots.length),
    ).to.deep.equal([10_001]);
  });

  it('is refused if a person asks for what cannot be', () => {
    for (const [given, of, sentence] of [
      [{ wanted: 'log', snapshots: [] }, {}, /needs a full one/],
      [{ wanted: 'log', isChainBroken: true }, {}, /broken/],
      [{ wanted: 'differential' }, {}, /PostgreSQL has no differential/],
      [{ wanted: 'log' }, { engine: 'mariadb' }, /MariaDB has no log/],
    ] as const) {
      const decided = decide(given, of);
      expect('refusal' in decided ? decided.refusal : '', JSON.stringify(given)).to.match(sentence);
    }
  });
});
