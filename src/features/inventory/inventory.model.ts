import type { RelationMappings } from 'objection';
import { BaseModel } from '../../platform/db/base-model.ts';
import type { FailedSource, NetworkInterface } from '../../protocol/index.ts';
import type { z } from 'zod';
import type { SoftwareChangeEntry } from './inventory.schema.ts';

/** When a device's inventory was collected, and what is kept of it beside the device's own record. */
export class DeviceInventory extends BaseModel {
  static override tableName = 'device_inventory';
  static override idColumn = ['org_id', 'device_id'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  static override jsonAttributes = ['interfaces', 'failedSources'];
  declare orgId: string;
  declare deviceId: string;
  declare interfaces: z.output<typeof NetworkInterface>[];
  declare failedSources: z.output<typeof FailedSource>[];
  declare hasSoftware: boolean;
  declare collectedAt: Date;
  declare receivedAt: Date;
}

/** A name of software, once for each organization. */
export class SoftwareTitle extends BaseModel {
  static override tableName = 'software_titles';
  static override idColumn = ['org_id', 'id'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare name: string;
}

/** A version of a title on a device. Written as differences by `software.queries.ts` alone. */
export class DeviceSoftware extends BaseModel {
  static override tableName = 'device_software';
  static override idColumn = ['org_id', 'device_id', 'title_id', 'version'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare deviceId: string;
  declare titleId: string;
  declare version: string;
  declare publisher: string | null;
  declare installedAt: Date | null;
  declare source: string | null;
  /** Null for what was there before this was recorded. */
  declare firstSeenAt: Date | null;
  /** No column: the name of the title, if it was joined. */
  declare name: string;

  static override relationMappings: RelationMappings = {
    title: {
      relation: BaseModel.BelongsToOneRelation,
      modelClass: SoftwareTitle,
      join: {
        from: ['device_software.org_id', 'device_software.title_id'],
        to: ['software_titles.org_id', 'software_titles.id'],
      },
    },
  };
}

export class SoftwareChange extends BaseModel {
  static override tableName = 'software_changes';
  static override idColumn = ['org_id', 'device_id', 'id'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare deviceId: string;
  declare at: Date;
  declare change: SoftwareChangeEntry['change'];
  declare name: string;
  declare version: string;
  declare previousVersion: string;
}
