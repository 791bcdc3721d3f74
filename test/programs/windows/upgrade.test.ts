import { expect } from 'chai';
import { type DeviceBench, startDeviceBench } from '../watchdog/support/device-bench.ts';
import { needsWine } from './support/needs-wine.ts';
import { startWindowsHost } from './support/windows-host.ts';

/** To start a program of a hundred megabytes under Wine takes a slow machine longer than other tests allow for. */
const TIMES = { firstHeartbeatMs: 60_000, heartbeatsMs: 60_000, stopMs: 20_000, pingEveryMs: 3000 };

/** Upgrades on Windows, where the file of a running program cannot be replaced. */
describe('an upgrade on Windows', function () {
  this.timeout(600_000);
  let bench: DeviceBench;

  before(function () {
    needsWine(this);
  });
  beforeEach(async () => {
    bench = await startDeviceBench(TIMES, startWindowsHost);
    bench.start();
    await bench.runs('1.0.0', 120_000);
  });
  afterEach(() => bench?.close());

  it('replaces the script of the agent', async () => {
    bench.offer(await bench.agentRelease('1.1.0'));
    await bench.phaseIs('completed', 180_000);
    await bench.runs('1.1.0', 120_000);
  });

  it('goes back if the release ends at once', async () => {
    bench.offer(await bench.agentRelease('1.1.0', 'process.exit(3);'));
    await bench.phaseIs('rolled_back CRASHED', 180_000);
    await bench.runs('1.0.0', 120_000);
  });

  it('replaces the executable of the watchdog while it runs', async () => {
    bench.offer(await bench.watchdogRelease('1.1.0'));
    await bench.phaseIs('completed', 180_000);
    // With the agent that is embedded in it.
    await bench.runs('1.1.0', 120_000);
    expect(bench.hub.lastHeartbeat?.watchdogVersion).to.equal('1.1.0');
  });
});
