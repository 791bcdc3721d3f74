import { expect } from 'chai';
import { queryFleet } from '../../../../src/hub/dashboard/dashboard-queries.ts';

describe('a query to more devices than are asked at once', () => {
  it('asks the next device when the client has taken the rows so far', async () => {
    const deviceIds = Array.from({ length: 70 }, (_value, at) => `d${at}`);
    const asked: string[] = [];
    let isTaken = (): void => {};
    const taken = new Promise<void>((resolve) => (isTaken = resolve));
    const outcomes = queryFleet({
      deviceIds,
      refusals: new Map(),
      // The client reads nothing after the answers of the first devices.
      ready: async () => {
        if (asked.length >= 64) await taken;
      },
      async queryDevice(deviceId) {
        asked.push(deviceId);
        return { ok: true, output: { scanned: 1, truncated: false } };
      },
      onRows() {},
      signal: new AbortController().signal,
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked.length).to.equal(64);
    isTaken();
    expect((await outcomes).map(({ outcome }) => outcome)).to.deep.equal(Array(70).fill('no_match'));
    expect(asked).to.have.members(deviceIds);
  });
});
