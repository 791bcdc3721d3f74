import type { RelationMappings } from 'objection';
import { BaseModel, belongsTo } from '../../platform/db/base-model.ts';
import type { DatabaseEngine, DatabaseInstance } from '../../protocol/index.ts';
import { DeviceModel } from '../devices/index.ts';

/** A database server as its device reports it. */
export interface InstanceFacts extends Omit<DatabaseInstance, 'engine' | 'instance'> {
  /** How many servers the device has, if it has more than it lists. */
  instanceCount?: number | undefined;
  /** Why the device could not look for servers of this engine when it was last asked. */
  unreadBecause?: string | undefined;
}

/** A database server, as its device last listed it. */
export class BackupDatabaseInstance extends BaseModel {
  static override tableName = 'backup_database_instances';
  static override relationMappings = (): RelationMappings => ({
    device: belongsTo(DeviceModel, 'backup_database_instances', 'device_id'),
  });
  static override jsonAttributes = ['facts'];
  declare orgId: string;
  declare deviceId: string;
  declare engine: DatabaseEngine;
  declare instance: string;
  declare facts: InstanceFacts;
  declare lastDiscoveredAt: Date;
}
