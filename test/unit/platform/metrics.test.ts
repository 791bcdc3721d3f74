import { expect } from 'chai';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createMetrics } from '../../../src/platform/metrics.ts';
import { eventually } from '../../support/eventually.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

describe('the metrics of a server', () => {
  it('hold those of the process, which is measured once for all servers', async () => {
    const [one, other] = [createMetrics(), createMetrics()];
    one.gauge('things', 'Things.', () => 1);
    const lag = 'nodejs_eventloop_lag_seconds';
    expect(one.registry.getSingleMetric(lag)).to.not.equal(undefined);
    expect(one.registry.getSingleMetric(lag)).to.equal(other.registry.getSingleMetric(lag));
    expect(await one.registry.metrics())
      .to.match(/^things 1$/m)
      .and.to.match(/^process_cpu_seconds_total \d/m);
    expect(await other.registry.metrics()).to.not.match(/^things/m);
  });

  it('leave nothing of a server in the memory that has ended', async () => {
    const server = (): WeakRef<object> => {
      const state = { devices: 1 };
      const metrics = createMetrics();
      metrics.gauge('things', 'Things.', () => state.devices);
      return new WeakRef(state);
    };
    const left = server();
    await eventually(
      async () => {
        collectGarbage();
        return left.deref() === undefined;
      },
      (isGone) => isGone,
      10_000,
    );
  });
});
