import { clock } from '../../clock.ts';
import type { WatchdogReport } from '../../protocol/index.ts';
import { openNetwork } from '../../agent/os/network/open-network.ts';
import type { Network } from '../../agent/os/network/network.ts';
import { deviceIdentity } from './device-identity.ts';

const ANSWER_MS = 20_000;

export interface ReportAnswer {
  /** The server has stored the report. */
  isTaken: boolean;
  /** The server is there and serves this device: a release that cannot connect now is at fault itself. */
  isServed: boolean;
}

const NOT_SERVED: ReportAnswer = { isTaken: false, isServed: false };
/** The device is not known or not wanted at the moment, or the server is busy: that is nobody's fault. */
const REFUSES_THE_DEVICE = [401, 403, 408, 410, 423, 425, 429];

/** Sends a report to the server of the enrollment, by the way that the agent takes. Never throws. */
export async function sendReport(dataDir: string, report: WatchdogReport): Promise<ReportAnswer> {
  const identity = await deviceIdentity(dataDir);
  if (identity === undefined) return NOT_SERVED;
  const { server, deviceId, token, nextToken } = identity;
  const url = URL.parse(`${server}/api/v1/agents/${encodeURIComponent(deviceId)}/watchdog-report`);
  const network = await openNetwork(dataDir).catch(() => undefined);
  if (url === null || network === undefined) return NOT_SERVED;
  try {
    // The present token first: the first use of the new one ends the connection of the agent.
    for (const each of nextToken === undefined ? [token] : [token, nextToken]) {
      const status = await post(network, url, each, report);
      if (status === 401) continue;
      if (status === undefined || status >= 500 || REFUSES_THE_DEVICE.includes(status)) return NOT_SERVED;
      return { isTaken: status >= 200 && status < 300, isServed: true };
    }
    return NOT_SERVED;
  } finally {
    network.close();
  }
}

/** The status of the answer; `undefined` where there was none. */
async function post(
  network: Network,
  url: URL,
  token: string,
  report: WatchdogReport,
): Promise<number | undefined> {
  try {
    const { status, body } = await clock.limit(ANSWER_MS, (signal) =>
      network.request(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(report),
        signal,
      }),
    );
    // Its body is not read.
    body.destroy();
    return status;
  } catch {
    return undefined;
  }
}
