import { expect } from 'chai';
import type { DeviceMetrics } from '../../../src/dashboard/api/routes.ts';
import {
  chartsOf,
  compared,
  figuresOf,
  rowsOf,
} from '../../../src/dashboard/features/devices/metric-charts.ts';

type Series = DeviceMetrics['series'][number];

const START = 1_700_000_000_000;
const series = (
  metric: Series['metric'],
  values: readonly [minute: number, value: number][],
  labels?: Series['labels'],
): Series => ({
  metric,
  ...(labels === undefined ? {} : { labels }),
  points: values.map(([minute, value]) => [START + minute * 60_000, value - 1, value, value + 1]),
});
const history = (...all: Series[]): DeviceMetrics => ({ step: 60, series: all, gaps: [] });

describe('the charts of a device', () => {
  it('are those for which there are figures, in their order', () => {
    const charts = chartsOf(
      history(
        series('load', [[0, 2]]),
        series('ramPercent', [[0, 30]]),
        series('cpuPercent', [[0, 10]]),
        series('uptimeSeconds', [[0, 100]]),
      ),
    );
    expect(charts.map(({ title }) => title)).to.deep.equal(['Processor', 'Memory', 'Load']);
    expect(chartsOf(history())).to.deep.equal([]);
  });

  it('stand on the same times, and are broken where nothing was measured', () => {
    const [processor, memory] = chartsOf(
      history(
        series('cpuPercent', [
          [0, 10],
          [3, 20],
        ]),
        series('ramPercent', [[1, 50]]),
      ),
    );
    expect(processor?.times).to.deep.equal([0, 1, 2, 3].map((minute) => START / 1000 + minute * 60));
    expect(processor?.lines[0]?.averages).to.deep.equal([10, null, null, 20]);
    expect(processor?.lines[0]?.highest).to.deep.equal([11, null, null, 21]);
    expect(memory?.lines[0]?.averages).to.deep.equal([null, 50, null, null]);
    expect(memory?.times).to.equal(processor?.times);
  });

  it('are saved with a row for each point, and none for times without one', () => {
    const charts = chartsOf(
      history(
        series('cpuPercent', [
          [0, 10],
          [2, 20],
        ]),
        series('networkSentPerSecond', [[2, 1000]]),
      ),
    );
    const at = (minute: number) => new Date(START + minute * 60_000).toISOString();
    expect(rowsOf(charts).slice(1)).to.deep.equal([
      [at(0), 'Processor', 'Processor', 10, 9, 11, '%'],
      [at(2), 'Processor', 'Processor', 20, 19, 21, '%'],
      [at(2), 'Network', 'Sent', 1000, 999, 1001, 'bytes per second'],
    ]);
  });

  it('show how full volumes are, each with its name, and none of which the size is not known', () => {
    const [volumes] = chartsOf(
      history(
        series('volumeUsedBytes', [[0, 51]], { volume: 'C:' }),
        series('volumeTotalBytes', [[0, 200]], { volume: 'C:' }),
        series('volumeUsedBytes', [[0, 51]], { volume: 'D:' }),
      ),
    );
    expect(volumes?.lines.map(({ label }) => label)).to.deep.equal(['C:']);
    const [line] = volumes?.lines ?? [];
    expect([line?.lowest, line?.averages, line?.highest]).to.deep.equal([[25], [25.5], [26]]);
  });

  it('are compared with an earlier time, point by point, also where that has another resolution', () => {
    const DAY = 24 * 60;
    const now = chartsOf(
      history(
        series('cpuPercent', [
          [0, 10],
          [1, 20],
          [2, 30],
        ]),
        series('ramPercent', [[0, 50]]),
      ),
    );
    const dayBefore = history(
      series('cpuPercent', [
        [-DAY + 1, 5],
        [-DAY + 2, 6],
      ]),
    );
    const [processor, memory] = compared(now, dayBefore, DAY * 60);
    expect(processor?.lines[0]?.earlier).to.deep.equal([null, 5, 6]);
    expect(processor?.lines[0]?.averages).to.deep.equal([10, 20, 30]);
    expect(memory?.lines[0]).not.to.have.property('earlier');
    const coarse = { ...history(series('cpuPercent', [[-DAY, 7]])), step: 120 };
    expect(compared(now, coarse, DAY * 60)[0]?.lines[0]?.earlier).to.deep.equal([7, 7, null]);
  });

  it('are put into figures: the newest, the average and the highest', () => {
    const [chart] = chartsOf(
      history(
        series('cpuPercent', [
          [0, 10],
          [2, 40],
          [3, 10],
        ]),
      ),
    );
    expect(figuresOf(chart!.lines[0]!)).to.deep.equal({ newest: 10, average: 20, highest: 41 });
    expect(figuresOf({ label: 'none', averages: [null], lowest: [null], highest: [null] })).to.equal(
      undefined,
    );
  });
});
