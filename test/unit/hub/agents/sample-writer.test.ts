import { expect } from 'chai';
import { createSampleWriter } from '../../../../src/hub/agents/sample-writer.ts';
import type { MetricReport } from '../../../../src/hub/ports.ts';
import { quietLog } from '../../../support/quiet-log.ts';
import { useTestClock } from '../../../support/use-test-clock.ts';

describe('samples that wait to be stored', () => {
  const time = useTestClock({ isRunning: false });
  let isAway: boolean;
  let stored: string[];
  let writer: ReturnType<typeof createSampleWriter>;

  beforeEach(() => {
    [isAway, stored] = [true, []];
    writer = createSampleWriter({
      history: {
        async record(reports) {
          if (isAway) throw new Error('The database is away.');
          const devices = reports.map(({ deviceId }) => deviceId);
          stored.push(...devices);
          return new Set(devices);
        },
      },
      log: quietLog,
      onRefused: () => {},
    });
  });

  /** As large as a message can be. */
  const largest = (deviceId: string): MetricReport => ({
    deviceId,
    samples: Array.from({ length: 60 }, () => ({
      at: new Date(0).toISOString(),
      volumes: Array.from({ length: 64 }, (_, n) => ({ volume: `/${n}`, usedBytes: 1, totalBytes: 2 })),
    })),
  });
  const send = (report: MetricReport): boolean | undefined => {
    let answer: boolean | undefined;
    writer.record(report, (isStored) => (answer = isStored));
    return answer;
  };

  it('are no more than fit, by what is in them, and are taken again when there is room', async () => {
    const answers = Array.from({ length: 60 }, (_, n) => send(largest(`device ${n}`)));
    const taken = answers.filter((answer) => answer === undefined).length;
    expect(taken).to.be.within(30, 50);
    expect(answers.slice(taken)).to.deep.equal(Array.from({ length: 60 - taken }, () => false));
    await time.advance(1_500);
    expect(send(largest('another')), 'the database is away').to.equal(false);
    isAway = false;
    await time.advance(2_000);
    expect(stored).to.have.length(taken);
    expect(send(largest('another'))).to.equal(undefined);
  });

  it('are those of thousands of usual devices', () => {
    const answers = Array.from({ length: 5_000 }, (_, n) =>
      send({
        deviceId: `device ${n}`,
        samples: Array.from({ length: 5 }, () => ({ at: new Date(0).toISOString(), cpuPercent: 1 })),
      }),
    );
    expect(answers.filter((answer) => answer === false)).to.deep.equal([]);
  });
});
