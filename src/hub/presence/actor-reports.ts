import { JobOutput, type CommandRows, type MetricSamples, type ServiceReport } from '../../protocol/index.ts';
import type { Logger } from '../../platform/logger.ts';
import type { IdentityGuard } from '../agents/identity-guard.ts';
import type { Directory } from '../cluster/directory.ts';
import type { CommandDispatcher } from '../commands/command-dispatcher.ts';
import type { ActorRegistry } from '../device/actor-registry.ts';
import type { ActorEvents, DeviceActor } from '../device/device-actor.ts';
import type { ClusterFeed } from '../feed/cluster-feed.ts';
import type { JobFeed } from '../commands/job-feed.ts';
import type {
  AgentIdentity,
  CommandEvent,
  DeviceFacts,
  DeviceServiceReport,
  MetricReport,
  PresenceRecord,
} from '../ports.ts';
import type { AcknowledgedWriter } from '../agents/acknowledged-writer.ts';
import type { ReportedUpgrade } from '../device/actor-messages.ts';
import type { UpgradeReportWriter } from '../agents/upgrade-report-writer.ts';
import type { PresenceWriter } from './presence-writer.ts';
import type { ReportingDevices } from './http-reports.ts';

interface Parts {
  registry: ActorRegistry;
  directory: Directory;
  writer: PresenceWriter;
  reporting: ReportingDevices;
  feed: ClusterFeed;
  dispatcher: CommandDispatcher;
  upgrades: UpgradeReportWriter | undefined;
  samples: Pick<AcknowledgedWriter<MetricReport, unknown>, 'record'>;
  services: Pick<AcknowledgedWriter<DeviceServiceReport, unknown>, 'record'>;
  jobs: JobFeed;
  guard: IdentityGuard;
  log: Logger;
}

/** Passes on what the actors of this node report: to the database, the dashboards and the ledger. */
export class ActorReports implements ActorEvents {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  presence(
    record: PresenceRecord,
    { identity, isHeartbeat }: { identity: AgentIdentity; isHeartbeat: boolean },
  ): void {
    const { reporting, writer, feed } = this.#parts;
    // A connection replaces reports over HTTP.
    if (record.presence.state === 'connected') reporting.delete(record.deviceId);
    writer.presence(record);
    const isReporting = reporting.lastSeenAt(record.deviceId) !== undefined;
    feed.reported(record, { tenant: identity, isReporting, isHeartbeat });
  }

  facts(facts: DeviceFacts): void {
    this.#parts.writer.facts(facts);
  }

  ready(actor: DeviceActor): void {
    if (!actor.isPending) this.#parts.dispatcher.wake(actor.deviceId);
  }

  command(event: CommandEvent, onStored?: (isStored: boolean) => void): void {
    this.#parts.dispatcher.record(event, onStored);
  }

  upgrade(deviceId: string, status: ReportedUpgrade, onStored: (isStored: boolean) => void): void {
    const { upgrades } = this.#parts;
    if (upgrades === undefined) return onStored(true);
    upgrades.record({ ...status, deviceId }, onStored);
  }

  samples(deviceId: string, samples: MetricSamples['samples'], onStored: (isStored: boolean) => void): void {
    this.#parts.samples.record({ deviceId, samples }, onStored);
  }

  services(deviceId: string, report: ServiceReport, onStored: (isStored: boolean) => void): void {
    this.#parts.services.record({ deviceId, report }, onStored);
  }

  rows(deviceId: string, { id, seq, rows }: CommandRows): void {
    const output = JobOutput.safeParse({ id, seq, rows });
    const { jobs, registry } = this.#parts;
    if (output.success && rows.length > 0) {
      jobs.output(deviceId, output.data, registry.get(deviceId)?.identity);
    }
  }

  outlived({ identity, claimant }: DeviceActor): void {
    this.#parts.guard.outlived(identity, claimant);
  }

  gone(actor: DeviceActor): void {
    const { registry, directory, log } = this.#parts;
    registry.remove(actor);
    directory
      .release(actor.deviceId, actor.epoch)
      .catch((error: unknown) => log.warn({ err: error }, 'hub.release_failed'));
  }

  failed(error: unknown, actor: DeviceActor): void {
    this.#parts.log.error({ err: error, deviceId: actor.deviceId }, 'hub.actor_failed');
  }
}
