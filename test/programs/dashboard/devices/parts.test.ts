import { expect } from 'chai';
import fc from 'fast-check';
import type { DeviceSummary, JobOutput } from '../../../../src/protocol/index.ts';
import {
  NOTHING_STREAMED,
  withOutput,
  type Streamed,
} from '../../../../src/dashboard/features/devices/streamed-output.ts';
import { withSample, type Sample } from '../../../../src/dashboard/features/devices/samples.ts';
import { maintenanceEndsAt } from '../../../../src/dashboard/features/devices/maintenance-end.ts';
import { bestDrop } from '../../../../src/dashboard/features/devices/match-devices.ts';
import { sortRows } from '../../../../src/dashboard/ui/held-order.ts';

const device = (hostname: string, status: DeviceSummary['status'], osType: DeviceSummary['osType']) =>
  ({
    id: hostname,
    orgId: 'o',
    siteId: 's',
    hostname,
    displayName: null,
    osType,
    agentVersion: '1.0.0',
    status,
    maintenance: null,
    presence: { state: 'connected', since: '2026-01-01T00:00:00Z', reason: 'connected' },
    lastSeenAt: null,
    metrics: null,
  }) satisfies DeviceSummary;

describe('choices that leave no device', () => {
  const fleet = [
    device('anna', 'online', 'windows'),
    device('anton', 'online', 'windows'),
    device('berta', 'offline', 'linux'),
  ];
  const textsOf = ({ hostname }: DeviceSummary) => [hostname];

  it('are undone best by dropping the one that removes most', () => {
    expect(bestDrop(fleet, { q: 'an', status: ['offline'] }, textsOf)).to.deep.equal({
      choice: 'status',
      count: 2,
    });
    expect(bestDrop(fleet, { q: 'berta', status: ['online'], os: [] }, textsOf)).to.deep.equal({
      choice: 'q',
      count: 2,
    });
  });

  it('have no single one to blame if each of several removes all', () => {
    expect(bestDrop(fleet, { q: 'nobody', status: ['maintenance'] }, textsOf)).to.equal(undefined);
    expect(bestDrop(fleet, {}, textsOf)).to.equal(undefined);
  });
});

describe('the order of the rows of a table', () => {
  const Row = fc.record({
    key: fc.integer({ max: 30, min: 0 }).map(String),
    value: fc.option(fc.integer({ max: 5 })),
  });
  const Rows = fc.uniqueArray(Row, { selector: ({ key }) => key });
  type Row = typeof Row extends fc.Arbitrary<infer T> ? T : never;
  const valueOf = ({ value }: Row) => value;
  const keyOf = ({ key }: Row) => key;
  const shown = ({ entries }: ReturnType<typeof sortRows<Row>>) => entries.map(({ row }) => row);

  it('is the same whether all rows are sorted or only those that have changed', () => {
    fc.assert(
      fc.property(Rows, Rows, fc.boolean(), (before, after, descending) => {
        const sorted = sortRows(before, valueOf, keyOf, descending);
        const again = sortRows(after, valueOf, keyOf, descending, sorted);
        expect(shown(again)).to.deep.equal(shown(sortRows(after, valueOf, keyOf, descending)));
      }),
    );
  });

  it('puts rows without a value last, both ways', () => {
    const rows = [
      { key: 'a', value: null },
      { key: 'b', value: 2 },
      { key: 'c', value: 10 },
    ];
    const keys = (descending: boolean) =>
      shown(sortRows(rows, valueOf, keyOf, descending))
        .map(keyOf)
        .join('');
    expect([keys(false), keys(true)]).to.deep.equal(['bca', 'cba']);
  });
});

describe('the end of maintenance', () => {
  const now = Date.parse('2026-03-01T12:00:00Z');

  it('lies ahead by what was chosen, or is left to a person', () => {
    expect(maintenanceEndsAt('hours', '', now)).to.equal('2026-03-01T16:00:00.000Z');
    expect(maintenanceEndsAt('open', '', now)).to.equal(null);
    expect(maintenanceEndsAt('time', '2026-03-01T13:00:00Z', now)).to.equal('2026-03-01T13:00:00.000Z');
  });

  it('is no time that has passed, and nothing that is no time', () => {
    for (const time of ['', 'soon', '2026-03-01T11:59:59Z', '2026-03-01T12:00:00Z']) {
      expect(maintenanceEndsAt('time', time, now), time).to.equal(undefined);
    }
  });
});

describe('the output of a script that runs', () => {
  const output = (seq: number, ...rows: [stream: 'stdout' | 'stderr', text: string][]): JobOutput => ({
    id: '01900000-0000-7000-8000-000000000001',
    seq,
    rows: rows.map(([stream, text]) => ({ stream, text })),
  });
  const after = (...outputs: JobOutput[]): Streamed => outputs.reduce(withOutput, NOTHING_STREAMED);

  it('is joined in its order, each stream marked, and a repeated message counts once', () => {
    const first = output(0, ['stdout', 'a'], ['stdout', 'b'], ['stderr', 'c']);
    const { rows, isPartial } = after(first, first, output(1, ['stdout', 'd']));
    expect(rows).to.deep.equal([
      { stream: 'stdout', text: 'ab' },
      { stream: 'stderr', text: 'c' },
      { stream: 'stdout', text: 'd' },
    ]);
    expect(isPartial).to.equal(false);
  });

  it('says that some is missing: before the page was opened, or in between', () => {
    expect(after(output(3, ['stdout', 'd'])).isPartial).to.equal(true);
    expect(after(output(0, ['stdout', 'a']), output(2, ['stdout', 'c'])).isPartial).to.equal(true);
  });

  it('keeps the end of a flood', () => {
    const flood = Array.from({ length: 300 }, (_, seq) =>
      output(seq, ['stdout', `${seq}:${'x'.repeat(4_000)}`]),
    );
    const { rows, isPartial } = after(...flood);
    const text = rows.map((row) => row.text).join('');
    expect(text.length).to.be.lessThan(210_000);
    expect(text).to.include('299:').and.not.include('12:x');
    expect(isPartial).to.equal(true);
  });
});

describe('the course of the load', () => {
  const sample = (at: number): Sample => ({ at, cpu: 1, ram: 2, disk: 3 });

  it('has each heartbeat once, of the last hour only', () => {
    const begin = [0, 10, 10, 5].map(sample).reduce(withSample, [] as readonly Sample[]);
    expect(begin.map(({ at }) => at)).to.deep.equal([0, 10]);
    const hour = 3_600_000;
    const course = [0, 10, hour, hour + 20].map(sample).reduce(withSample, [] as readonly Sample[]);
    expect(course.map(({ at }) => at)).to.deep.equal([hour, hour + 20]);
  });
});
