import { expect } from 'chai';
import { type RunRecord, violations } from './violations.ts';

/** A run in which all was well: two commands, one of them posted twice, and one query. */
const wellRun = (): RunRecord => ({
  posts: [
    { key: 'k1', effectId: 'e1', acknowledged: ['c1', 'c1'] },
    { key: 'k2', effectId: 'e2', acknowledged: [] },
    { key: 'k3', effectId: 'e3', acknowledged: [] },
  ],
  ledger: [
    { id: 'c1', effectId: 'e1', status: 'succeeded', ends: ['succeeded'] },
    // Its acknowledgement was lost; that of e3 never came to the ledger.
    { id: 'c2', effectId: 'e2', status: 'succeeded', ends: ['succeeded'] },
  ],
  effects: ['e1', 'e2'],
  queries: [{ marker: 'm1', rows: ['d1 m1'], expected: ['d1 m1'] }],
  views: [{ reader: 'REST', moment: 'at rest', online: ['d2', 'd1'], connected: ['d1', 'd2'] }],
  frameFaults: [],
  serverFaults: [],
  audit: { faults: [], commandIds: ['c1', 'c2'] },
  levels: [{ what: 'memory', before: 100, after: 120, most: 200 }],
  overdue: [],
});

/** The rules that are violated once this has been changed. */
function rulesOf(plant: (record: RunRecord) => void): string[] {
  const record = wellRun();
  plant(record);
  return violations(record).map(({ rule }) => rule);
}

describe('the violations of a run', () => {
  const planted: [string, (record: RunRecord) => void, string[]][] = [
    ['nothing where all was well', () => {}, []],
    [
      'an acknowledged command that the ledger does not have',
      ({ posts }) => posts.push({ key: 'k4', effectId: 'e4', acknowledged: ['c4'] }),
      ['no acknowledged command is lost'],
    ],
    [
      'a command that is still open',
      ({ ledger }) => (ledger[0] = { id: 'c1', effectId: 'e1', status: 'queued', ends: [] }),
      ['no command is left open'],
    ],
    [
      'a command that ended twice',
      ({ ledger }) => ledger[0]?.ends.unshift('timed_out'),
      ['a command ends once'],
    ],
    [
      'a command without a transition to its end',
      ({ ledger }) => ledger[0]?.ends.pop(),
      ['a command ends once'],
    ],
    [
      'two commands that were answered to one key',
      ({ posts, ledger, audit }) => {
        posts[0]?.acknowledged.push('c3');
        ledger.push({ id: 'c3', effectId: 'e1', status: 'failed', ends: ['failed'] });
        audit.commandIds.push('c3');
      },
      ['one Idempotency-Key makes one command'],
    ],
    [
      'a second command of a key, which nobody was told of',
      ({ ledger, audit }) => {
        ledger.push({ id: 'c3', effectId: 'e2', status: 'failed', ends: ['failed'] });
        audit.commandIds.push('c3');
      },
      ['one Idempotency-Key makes one command'],
    ],
    ['an effect that happened twice', ({ effects }) => effects.push('e1'), ['no effect happens twice']],
    [
      'an effect that nobody asked for',
      ({ effects }) => effects.push('e9'),
      ['no effect happens that nobody asked for'],
    ],
    [
      'a command that succeeded without its effect',
      (record) => (record.effects = ['e2']),
      ['what succeeded has happened'],
    ],
    [
      'the answer of another query',
      ({ queries }) => queries.push({ marker: 'm2', rows: ['d1 m1'], expected: ['d1 m2'] }),
      ['a live query gets its own answer, whole'],
    ],
    [
      'an answer that lost its rows',
      ({ queries }) => queries.push({ marker: 'm2', rows: [], expected: ['d1 m2'] }),
      ['a live query gets its own answer, whole'],
    ],
    [
      'a ghost on a dashboard',
      ({ views }) =>
        views.push({ reader: 'a dashboard', moment: 'at rest', online: ['d1', 'd9'], connected: ['d1'] }),
      ['nobody is shown online who is not connected'],
    ],
    [
      'a connected device that a dashboard does not show',
      ({ views }) => views.push({ reader: 'a dashboard', moment: 'at rest', online: [], connected: ['d1'] }),
      ['everybody who is connected is shown online'],
    ],
    [
      'a number left out between two frames',
      ({ frameFaults }) => frameFaults.push('seq 3 → 5'),
      ['dashboards are sent whole sequences'],
    ],
    [
      'a server that ended by itself',
      ({ serverFaults }) => serverFaults.push('north ended by itself'),
      ['servers end only when they are killed'],
    ],
    [
      'a command without an audit entry',
      ({ audit }) => audit.commandIds.pop(),
      ['each command has one audit entry'],
    ],
    [
      'a command with two audit entries',
      ({ audit }) => audit.commandIds.push('c1'),
      ['each command has one audit entry'],
    ],
    [
      'an audit chain that is not intact',
      ({ audit }) => audit.faults.push('entry 7 was changed'),
      ['the audit trail is intact'],
    ],
    [
      'memory that grew',
      ({ levels }) => levels.push({ what: 'memory', before: 100, after: 300, most: 200 }),
      ['memory and connections stay flat'],
    ],
    [
      'a level that could not be read',
      ({ levels }) => levels.push({ what: 'memory', before: 100, after: Number.NaN, most: 200 }),
      ['memory and connections stay flat'],
    ],
    [
      'agents that did not come back',
      ({ overdue }) => overdue.push('2 agents have not come back'),
      ['everything is at rest soon after the last fault'],
    ],
  ];
  for (const [what, plant, rules] of planted) {
    it(`names ${what}`, () => expect(rulesOf(plant)).to.deep.equal(rules));
  }
});
