import { BaseModel } from '../../../platform/db/base-model.ts';
import type { HypervisorKind, Machine } from '../../../protocol/index.ts';

/** A guest of a hypervisor, as its device last listed it. */
export class BackupMachine extends BaseModel {
  static override tableName = 'backup_machines';
  static override jsonAttributes = ['facts'];
  declare orgId: string;
  declare deviceId: string;
  declare hypervisor: HypervisorKind;
  declare machineId: string;
  declare name: string;
  declare facts: Omit<Machine, 'id' | 'name'>;
  declare lastDiscoveredAt: Date;
}
