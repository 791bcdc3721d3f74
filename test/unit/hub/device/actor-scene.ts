import type { ActorLimits, DeviceLink } from '../../../../src/hub/device/actor-messages.ts';
import { type ActorEvents, type ActorOptions, DeviceActor } from '../../../../src/hub/device/device-actor.ts';
import type { LiveQueryOutcome } from '../../../../src/hub/device/live-query.ts';
import {
  type CommandEvent,
  type DispatchedCommand,
  type DeviceFacts,
  type PresenceRecord,
  NO_UPGRADE_OFFERS,
} from '../../../../src/hub/ports.ts';
import {
  COMMAND_TYPES,
  type CommandFrame,
  type CommandReceipt,
  type CommandResult,
  type CommandRows,
  type CommandType,
  type HubReconnect,
} from '../../../../src/protocol/index.ts';

export const NOW = Date.parse('2026-01-31T08:00:00Z');
export const AT = '2026-01-31T08:00:00.000Z';
export const GRACE_MS = 5000;
const LIMITS: ActorLimits = { heartbeatMs: 60_000, graceMs: GRACE_MS, maxQueries: 4 };

export interface ActorScene {
  actor: DeviceActor;
  sent: CommandFrame[];
  /** The receipt callback of each command that was sent. */
  receipts: ((answer: CommandReceipt) => void)[];
  cancelled: string[];
  closed: (HubReconnect | undefined)[];
  presence: PresenceRecord[];
  facts: DeviceFacts[];
  failed: unknown[];
  ready: number;
  gone: number;
  unreadChecks: number;
  commandEvents: CommandEvent[];
  jobRows: { deviceId: string; rows: CommandRows }[];
  upgrades: unknown[];
  samples: unknown[];
  services: unknown[];
  outcomes: Map<string, LiveQueryOutcome[]>;
  queryRows: Map<string, unknown[]>;
  ask(id: string, options?: { type?: CommandType; maxRows?: number; payload?: unknown }): boolean;
  result(id: string, more?: Partial<CommandResult>): boolean[];
}

/** An actor whose link and events record what they are given. */
export function actorScene(
  more: Partial<ActorOptions> = {},
  { events = {}, link = {} }: { events?: Partial<ActorEvents>; link?: Partial<DeviceLink> } = {},
): ActorScene {
  const notes: Omit<ActorScene, 'actor'> = {
    sent: [],
    receipts: [],
    cancelled: [],
    closed: [],
    presence: [],
    facts: [],
    failed: [],
    ready: 0,
    gone: 0,
    unreadChecks: 0,
    commandEvents: [],
    jobRows: [],
    upgrades: [],
    samples: [],
    services: [],
    outcomes: new Map(),
    queryRows: new Map(),
    ask(id, { type = 'eventlogs.query', maxRows = 1000, payload = { name: 'System' } } = {}) {
      notes.outcomes.set(id, []);
      notes.queryRows.set(id, []);
      return actor.post({
        kind: 'query',
        query: {
          id,
          type,
          payload,
          deadline: NOW + 30_000,
          maxRows,
          onRows: (rows) => void notes.queryRows.get(id)?.push(...rows),
          settle: (outcome) => void notes.outcomes.get(id)?.push(outcome),
        },
      });
    },
    result(id, fields = {}) {
      const acks: boolean[] = [];
      const output = { scanned: 1, truncated: false };
      actor.post({
        kind: 'result',
        result: {
          id,
          epoch: actor.epoch,
          status: 'succeeded',
          output,
          startedAt: AT,
          finishedAt: AT,
          ...fields,
        },
        ack: (isStored) => void acks.push(isStored),
      });
      return acks;
    },
  };
  const actor = new DeviceActor({
    identity: {
      deviceId: 'device-1',
      orgId: 'org-1',
      siteId: 'site-1',
      partnerId: 'partner-1',
      machine: { osType: 'linux', architecture: 'x64', autoUpdate: true, canUpgrade: true },
    },
    link: {
      sendCommand(frame, receipt) {
        notes.sent.push(frame);
        if (receipt !== undefined) notes.receipts.push(receipt);
      },
      sendCancel: ({ id }) => void notes.cancelled.push(id),
      sendTerminalControl: () => {},
      endIfUnread: () => void (scene.unreadChecks += 1),
      close: (notice) => void notes.closed.push(notice),
      answers: async () => true,
      ...link,
    },
    events: {
      presence: (record) => void notes.presence.push(structuredClone(record)),
      facts: (facts) => void notes.facts.push(facts),
      outlived: () => {},
      ready: () => void (scene.ready += 1),
      command(event, onStored) {
        notes.commandEvents.push(event);
        onStored?.(true);
      },
      upgrade(deviceId, status, onStored) {
        notes.upgrades.push({ deviceId, status });
        onStored(true);
      },
      services(deviceId, report, onStored) {
        notes.services.push({ deviceId, report });
        onStored(true);
      },
      samples(deviceId, samples, onStored) {
        notes.samples.push({ deviceId, samples });
        onStored(true);
      },
      rows: (deviceId, rows) => void notes.jobRows.push({ deviceId, rows }),
      gone: () => void (scene.gone += 1),
      failed: (error) => void notes.failed.push(error),
      ...events,
    },
    limits: LIMITS,
    offers: NO_UPGRADE_OFFERS,
    agentVersion: '1.0.0',
    capabilities: [...COMMAND_TYPES],
    ip: '10.0.0.7',
    connectedSince: undefined,
    earlierEpoch: 0,
    now: NOW,
    ...more,
  });
  const scene: ActorScene = Object.assign(notes, { actor });
  return scene;
}

export const command = (more: Partial<DispatchedCommand> = {}): DispatchedCommand => ({
  id: 'command-1',
  deviceId: 'device-1',
  type: 'agent.reboot',
  payload: {},
  attempt: 2,
  epoch: 7,
  deadline: '2026-01-31T08:10:00.000Z',
  ...more,
});
