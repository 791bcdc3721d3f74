import { expect } from 'chai';
import fc from 'fast-check';
import {
  findAnomaly,
  hasRecovered,
  type DeviceFacts,
  estimatedRtoMinutes,
  missedSince,
  type Protection,
  type SnapshotFigures,
} from '../../../../src/features/backup/protection.ts';
import { readinessOf, RISKS } from '../../../../src/features/backup/readiness.ts';

const now = new Date('2026-03-01T12:00:00Z');
const ago = (days: number) => new Date(now.getTime() - days * 86_400_000);

const snapshot = (daysAgo: number, more: Partial<SnapshotFigures> = {}): SnapshotFigures => ({
  id: '00000000-0000-4000-8000-000000000000',
  receivedAt: ago(daysAgo),
  sizeBytes: 600_000_000,
  fileCount: 1000,
  changedFiles: 10,
  receivedBytes: null,
  isPartial: false,
  lacksFiles: false,
  emptySources: null,
  consistency: null,
  ...more,
});
const protection = (more: Partial<Protection> = {}): Protection => ({
  repositoryId: '00000000-0000-4000-8000-000000000001',
  configId: '00000000-0000-4000-8000-000000000002',
  configName: 'Documents',
  provider: 'server',
  frequency: 'daily',
  windowStart: null,
  windowEnd: null,
  since: ago(100),
  snapshots: [snapshot(0.5), snapshot(1.5)],
  lastJob: { status: 'completed', errorCode: null, errorMessage: null, finishedAt: ago(0.5) },
  failuresOfWeek: 0,
  integrity: { status: 'passed', at: ago(3) },
  testRestore: { status: 'passed', at: ago(10) },
  keyRotatesSince: null,
  hasDatabases: false,
  chainEnds: null,
  ...more,
});
const device = (...protections: Protection[]): DeviceFacts => ({
  deviceId: '00000000-0000-4000-8000-000000000003',
  orgId: '00000000-0000-4000-8000-000000000004',
  deviceName: 'server-1',
  protections,
  restores: [
    { bytes: 1_000, seconds: 1 },
    { bytes: 400_000_000, seconds: 200 },
  ],
  slaTargets: { rpoMinutes: null, rtoMinutes: null },
});
const withSla = (facts: DeviceFacts, targets: Partial<DeviceFacts['slaTargets']>): DeviceFacts => ({
  ...facts,
  slaTargets: { ...facts.slaTargets, ...targets },
});
const codes = (facts: DeviceFacts) => readinessOf(facts, { now }).risks.map(({ code }) => code);

describe('readiness', () => {
  it('counts from the newest snapshot that can be restored, if a database needs others that are gone', () => {
    const ends = (daysAgo: number | null, brokenBecause: string | null) =>
      protection({
        hasDatabases: true,
        chainEnds: { restorableAt: daysAgo === null ? null : ago(daysAgo), brokenBecause },
      });
    expect(codes(device(ends(0.5, null)))).to.deep.equal([]);
    const broken = device(ends(4, 'A log is missing.'));
    expect(codes(broken)).to.deep.equal(['backup_overdue', 'chain_broken']);
    expect(readinessOf(broken, { now }).rpoMinutes).to.equal(4 * 1440);
    expect(codes(device(ends(null, 'A log is missing.')))).to.include('no_backup');
    expect(missedSince(ends(4, 'A log is missing.'), now)).to.deep.equal(ago(2.5));
  });

  it('counts images by their age and proofs, and those that were read while the machine was in use', () => {
    const image = (consistency: string, daysAgo = 0.5) =>
      protection({ snapshots: [snapshot(daysAgo, { consistency, fileCount: 1 })] });
    expect(codes(device(image('filesystem')))).to.deep.equal([]);
    expect(codes(device(image('crash')))).to.deep.equal([]);
    expect(codes(device(image('none')))).to.deep.equal(['image_inconsistent']);
    expect(codes(device(image('none', 9)))).to.include.members(['backup_overdue', 'image_inconsistent']);
  });

  it('is whole only if backups are fresh and were verified in both ways', () => {
    expect(readinessOf(device(protection()), { now })).to.deep.equal({
      score: 100,
      rtoMinutes: 11,
      rpoMinutes: 720,
      risks: [],
    });
    expect(codes(device(protection({ integrity: null, testRestore: null })))).to.deep.equal([
      'integrity_unproven',
      'restore_unproven',
    ]);
  });

  it('is nothing without a snapshot', () => {
    expect(readinessOf(device(), { now }).score).to.equal(0);
    expect(readinessOf(device(protection(), protection({ snapshots: [] })), { now }).score).to.equal(0);
  });

  it('goes by the strictest expectation: the SLA, else the schedule', () => {
    const facts = device(protection({ snapshots: [snapshot(1.2)] }));
    expect(codes(facts)).to.deep.equal([]);
    expect(codes(withSla(facts, { rpoMinutes: 1440 }))).to.deep.equal(['backup_stale']);
    expect(codes(device(protection({ snapshots: [snapshot(5)] })))).to.deep.equal(['backup_overdue']);
  });

  it('never grows by a further fault, and stays between 0 and 100', () => {
    const fault = fc.constantFrom<Partial<Protection>>(
      { snapshots: [] },
      { snapshots: [snapshot(2)] },
      { snapshots: [snapshot(9)] },
      { snapshots: [snapshot(0.1, { sizeBytes: 1 }), snapshot(1), snapshot(2)] },
      { integrity: { status: 'failed', at: ago(1) } },
      { testRestore: null },
      { testRestore: { status: 'partial', at: ago(1) } },
      { failuresOfWeek: 4 },
      {
        lastJob: { status: 'failed', errorCode: 'DESTINATION_FULL', errorMessage: null, finishedAt: ago(0) },
      },
      { keyRotatesSince: ago(8) },
    );
    fc.assert(
      fc.property(fc.array(fault, { maxLength: 5 }), fault, (faults, another) => {
        const before = readinessOf(device(...faults.map(protection), protection()), { now }).score;
        const after = readinessOf(device(...faults.map(protection), protection(), protection(another)), {
          now,
        });
        expect(after.score).to.be.within(0, before);
        expect(after.score).to.equal(
          Math.max(0, 100 - after.risks.reduce((sum, { code }) => sum + RISKS[code].points, 0)),
        );
      }),
    );
  });

  it('estimates the time of a restore by the speed of those before, and compares it with the SLA', () => {
    const facts = device(protection());
    // 600 MB at nearly 2 MB a second: the restore of a small file does not count as much as a large one.
    expect(estimatedRtoMinutes(facts)).to.equal(5 + 6);
    expect(estimatedRtoMinutes({ ...facts, restores: [] })).to.equal(null);
    expect(codes(withSla(facts, { rtoMinutes: 11 }))).to.deep.equal([]);
    expect(codes(withSla(facts, { rtoMinutes: 10 }))).to.deep.equal(['restore_slow']);
  });
});

describe('a missed backup', () => {
  it('shows by the clock of the server, after the interval and its grace', () => {
    expect(missedSince(protection({ snapshots: [snapshot(1.4)] }), now)).to.equal(undefined);
    expect(missedSince(protection({ snapshots: [snapshot(1.6)] }), now)).to.deep.equal(ago(0.1));
    expect(missedSince(protection({ snapshots: [] }), now)).to.deep.equal(ago(98.5));
    // A configuration that was changed since is not made responsible for the time before.
    expect(missedSince(protection({ snapshots: [snapshot(50)], since: ago(1) }), now)).to.equal(undefined);
    expect(missedSince(protection({ snapshots: [snapshot(50)], frequency: null }), now)).to.equal(undefined);
  });

  it('of each hour in a window is not missed while the window is closed', () => {
    const hourly = (daysAgo: number, windowStart: string | null, windowEnd: string | null) =>
      protection({ frequency: 'hourly', windowStart, windowEnd, snapshots: [snapshot(daysAgo)] });
    // From the evening until the next one of the morning are 15 hours.
    expect(missedSince(hourly(15 / 24, '08:00', '18:00'), now)).to.equal(undefined);
    expect(codes(device(hourly(15 / 24, '08:00', '18:00')))).to.deep.equal([]);
    expect(missedSince(hourly(18 / 24, '08:00', '18:00'), now)).to.deep.equal(ago(1 / 24));
    expect(missedSince(hourly(20 / 24, '22:00', '02:00'), now)).to.equal(undefined);
    expect(missedSince(hourly(4 / 24, null, null), now)).to.deep.equal(ago(1 / 24));
    const daily = protection({ windowStart: '22:00', windowEnd: '02:00', snapshots: [snapshot(1.6)] });
    expect(missedSince(daily, now)).to.deep.equal(ago(0.1));
  });
});

describe('a sign of ransomware', () => {
  const usual = [snapshot(1), snapshot(2), snapshot(3)];

  it('is a backup of less than half of the usual size', () => {
    expect(findAnomaly([snapshot(0, { sizeBytes: 299_999_999 }), ...usual])).to.include({
      sign: 'size_drop',
    });
    expect(findAnomaly([snapshot(0, { sizeBytes: 300_000_000 }), ...usual])).to.equal(undefined);
    const tiny = usual.map((each) => ({ ...each, sizeBytes: 1000 }));
    expect(findAnomaly([snapshot(0, { sizeBytes: 0 }), ...tiny])).to.equal(undefined);
  });

  it('is a change of half of the files if few change as a rule', () => {
    expect(findAnomaly([snapshot(0, { changedFiles: 500 }), ...usual])).to.include({ sign: 'changes' });
    expect(findAnomaly([snapshot(0, { changedFiles: 499 }), ...usual])).to.equal(undefined);
    const busy = usual.map((each) => ({ ...each, changedFiles: 600 }));
    expect(findAnomaly([snapshot(0, { changedFiles: 900 }), ...busy])).to.equal(undefined);
  });

  it('does not end because small backups become usual', () => {
    const small = Array.from({ length: 11 }, (_, day) => snapshot(day, { sizeBytes: 1000 }));
    expect(findAnomaly(small)).to.equal(undefined);
    expect(hasRecovered(600_000_000, small[0])).to.equal(false);
    expect(hasRecovered(600_000_000, snapshot(0, { sizeBytes: 500_000_000 }))).to.equal(true);
    expect(hasRecovered(600_000_000, undefined)).to.equal(false);
  });

  it('finds a flood by what the store has received, whatever the device says of it', () => {
    const usual = [1, 2, 3].map((daysAgo) =>
      snapshot(daysAgo, { sizeBytes: 10_000_000, receivedBytes: 100_000 }),
    );
    const silent = { sizeBytes: 10_000_000, changedFiles: 0 };
    const newest = (receivedBytes: number) => snapshot(0, { ...silent, receivedBytes });
    expect(findAnomaly([newest(5_000_000), ...usual])).to.deep.equal({
      sign: 'rewritten',
      receivedBytes: 5_000_000,
      usualBytes: 10_000_000,
    });
    expect(findAnomaly([newest(4_999_999), ...usual])).to.equal(undefined);
    const grown = { ...newest(5_000_000), sizeBytes: 15_000_000 };
    expect(findAnomaly([grown, ...usual]), 'new files').to.equal(undefined);
    const busy = usual.map((each) => ({ ...each, receivedBytes: 3_000_000 }));
    expect(findAnomaly([newest(9_000_000), ...busy])).to.equal(undefined);
    const elsewhere = usual.map((each) => ({ ...each, receivedBytes: null }));
    expect(findAnomaly([newest(9_000_000), ...elsewhere])).to.equal(undefined);
  });

  it('judges nothing by a first backup, of which everything is new', () => {
    const first = snapshot(3, {
      fileCount: 120,
      changedFiles: 120,
      sizeBytes: 3_000_000,
      receivedBytes: 3_000_000,
    });
    const figures = { fileCount: 120, sizeBytes: 3_000_000, receivedBytes: 3_000_000 };
    const encrypted = snapshot(0, { ...figures, changedFiles: 120 });
    expect(findAnomaly([encrypted, first])).to.equal(undefined);
    const second = snapshot(2, { ...figures, changedFiles: 1, receivedBytes: 1000 });
    expect(findAnomaly([encrypted, second, first])).to.include({ sign: 'changes', changedFiles: 120 });
    expect(findAnomaly([{ ...encrypted, changedFiles: 0 }, second, first])).to.include({ sign: 'rewritten' });
  });
});
