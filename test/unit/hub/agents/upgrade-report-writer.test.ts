import { expect } from 'chai';
import type { UpgradeReport } from '../../../../src/hub/ports.ts';
import { UpgradeReportWriter } from '../../../../src/hub/agents/upgrade-report-writer.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

const report = (deviceId: string): UpgradeReport => ({
  deviceId,
  component: 'agent',
  targetVersion: '1.2.3',
  phase: 'downloading',
});

describe('reports of upgrades', () => {
  const time = useTestClock({ isRunning: false });
  let stored: string[][];
  let isAway: boolean;
  let onChanged: (deviceIds: readonly string[]) => void;
  let writer: UpgradeReportWriter;
  let answers: [device: string, isStored: boolean][];

  beforeEach(() => {
    [stored, isAway, answers, onChanged] = [[], false, [], () => {}];
    writer = new UpgradeReportWriter({
      history: {
        async record(reports) {
          if (isAway) throw new Error('The database is away.');
          const devices = reports.map(({ deviceId }) => deviceId);
          stored.push(devices);
          return devices;
        },
      },
      log: quietLog,
      onChanged: (deviceIds) => onChanged(deviceIds),
      onRefused: () => {},
    });
  });

  const send = (device: string) =>
    writer.record(report(device), (isStored) => void answers.push([device, isStored]));

  it('are written together, and acknowledged when they are stored', async () => {
    send('one');
    send('two');
    expect(answers).to.deep.equal([]);
    await time.advance(20);
    expect(stored).to.deep.equal([['one', 'two']]);
    expect(answers).to.deep.equal([
      ['one', true],
      ['two', true],
    ]);
  });

  it('wait while the database is away, and are tried again each second', async () => {
    isAway = true;
    send('one');
    await time.advance(1_500);
    expect(answers).to.deep.equal([]);
    isAway = false;
    await time.advance(1_000);
    expect([stored, answers]).to.deep.equal([[['one']], [['one', true]]]);
  });

  it('are still written after an error of the part that is told of changes', async () => {
    onChanged = () => {
      throw new Error('planted');
    };
    send('one');
    await time.advance(20);
    onChanged = () => {};
    send('two');
    await time.advance(2_000);
    expect(stored.flat()).to.include('two');
    expect(answers).to.deep.include(['two', true]);
  });

  it('are refused when the server closes, so that the agent sends them again', async () => {
    isAway = true;
    send('one');
    await writer.close();
    send('two');
    expect(answers).to.deep.equal([
      ['one', false],
      ['two', false],
    ]);
  });
});
