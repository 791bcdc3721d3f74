export { cloudBackupPages } from './cloud-backup.pages.ts';
