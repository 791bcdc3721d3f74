import type { Device } from '../../../../api/index.ts';
import { DeviceBackup } from '../../../backup/index.ts';

export function BackupTab({ device }: { device: Device }) {
  const { id, orgId, osType } = device;
  return <DeviceBackup deviceId={id} orgId={orgId} isWindows={osType === 'windows'} />;
}
