import type { AgentCredentials, CommandLedger, DeviceStore, People } from '../../../src/hub/ports.ts';

/** What the hub needs of the features above it, where a figure is not about them: nothing is stored, all are let in. */

export const NO_STORE: DeviceStore = {
  recordPresence: async () => {},
  recordReports: async () => {},
  reporting: async () => [],
  recordFacts: async () => [],
  markLost: async () => [],
  greatestEpoch: async () => 0,
  askable: async (_caller, deviceIds) => new Map(deviceIds.map((id) => [id, { refusal: undefined }])),
  found: async () => [],
  summaries: async () => [],
  summariesOf: async () => [],
};

export const NO_LEDGER: CommandLedger = {
  take: async () => ({ dispatched: [], cancelled: [], changed: [] }),
  record: async () => [],
  undelivered: async () => [],
  sweep: async () => [],
  jobs: async () => [],
};

/** Whatever a device sends as its token is its id. */
export const TOKEN_IS_DEVICE: AgentCredentials = {
  verify: async (token) => ({
    ok: true,
    identity: { deviceId: token, orgId: 'org', siteId: 'site', partnerId: 'partner' },
  }),
  forget() {},
  lapsed: async () => [],
};

export const NO_PEOPLE: People = {
  authenticate: async () => {
    throw new Error('nobody signs in here');
  },
  countUse: async () => {},
};
