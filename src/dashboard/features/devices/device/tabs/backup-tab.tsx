import type { Device } from '../../../../api/index.ts';
import { DeviceBackup } from '../../../backup/index.ts';

export function BackupTab({ device }: { device: Device }) {
  return <DeviceBackup deviceId={device.id} orgId={device.orgId} />;
}
