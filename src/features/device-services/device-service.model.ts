import { BaseModel } from '../../platform/db/base-model.ts';
import type { ServiceManager, ServiceState, StartMode } from '../../protocol/index.ts';

/** A service of a device. Written as differences by `device-service.queries.ts` alone. */
export class DeviceServiceRow extends BaseModel {
  static override tableName = 'device_services';
  static override idColumn = ['org_id', 'device_id', 'name'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare deviceId: string;
  declare name: string;
  /** Empty if it has none. */
  declare displayName: string;
  declare state: ServiceState;
  declare startMode: StartMode | null;
  declare since: Date;
}

/** What a device reported last about its services as a whole. */
export class DeviceServiceReportRow extends BaseModel {
  static override tableName = 'device_service_reports';
  static override idColumn = ['org_id', 'device_id'];
  static override hasOwnId = false;
  static override hasUpdatedAt = false;
  declare orgId: string;
  declare deviceId: string;
  declare manager: ServiceManager;
  /** Null if all services are kept. */
  declare total: number | null;
  declare reportedAt: Date;
}
