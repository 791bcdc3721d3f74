import {
  AccessTokens,
  type CloudParts,
  consentCookie,
  consentLimit,
} from '../features/cloud-backup/index.ts';
import { createMac } from '../platform/secrets/mac.ts';
import type { Infrastructure } from './infrastructure.ts';

/** What the backup of Microsoft 365 shares: access to Graph, and the cookie that binds a consent to its browser. */
export function createCloudBackup({
  cloudFetch,
  cloudFiles,
  config: { cloudBackup, secureCookies },
  rateLimits,
  secretKeys,
  secrets,
}: Infrastructure) {
  const cloud: CloudParts = {
    cloudFetch,
    cloudFiles,
    cloudBackup,
    cloudTokens: new AccessTokens(cloudFetch, cloudBackup),
    secrets,
  };
  return {
    cloud,
    consentLimit: consentLimit(rateLimits),
    consentCookie: consentCookie({ mac: createMac(secretKeys, 'state of a consent'), secureCookies }),
  };
}
