import type { Caller } from '../../../src/platform/context.ts';
import type { AgentCredentials, CommandLedger, DeviceStore, People } from '../../../src/hub/ports.ts';

/**
 * Stubs for the hub's ports, for figures that do not involve the features: nothing is stored, every agent is
 * admitted.
 */

export const NO_STORE: DeviceStore = {
  recordPresence: async () => {},
  recordReports: async () => {},
  reporting: async () => [],
  recordFacts: async () => [],
  recordConflict: async () => {},
  markLost: async () => [],
  greatestEpoch: async () => 0,
  misrecorded: async () => [],
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

/** The token of a device is its id. */
export const TOKEN_IS_DEVICE: AgentCredentials = {
  verify: async (token) => ({
    ok: true,
    identity: {
      deviceId: token,
      orgId: 'org',
      siteId: 'site',
      partnerId: 'partner',
      machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: false },
    },
  }),
  forget() {},
  lapsed: async () => [],
};

export const NO_PEOPLE: People = {
  authenticate: async () => {
    throw new Error('This server has no sign-in.');
  },
  countUse: async () => {},
};

const PERSON: Caller = {
  scope: 'system',
  kind: 'user',
  userId: 'user',
  sessionId: 'session',
  apiKeyId: null,
  email: 'somebody@example.com',
  name: 'Somebody',
  partnerId: null,
  orgId: null,
  orgAccess: 'all',
  orgIds: [],
  roleId: 'role',
  roleName: 'role',
  permissions: new Set(['devices:read']),
  mfa: false,
  ipAllowlist: [],
};

/** Every token is that of one person, who sees everything. */
export const ANY_PERSON: People = { authenticate: async () => PERSON, countUse: async () => {} };
