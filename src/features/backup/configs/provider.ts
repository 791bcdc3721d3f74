import { invalid } from '../../../platform/errors.ts';
import { omitUndefined } from '../../../platform/omit-undefined.ts';
import { type Sealer, sealContext } from '../../../platform/secrets/sealed.ts';
import { type BackupConfig, SEALED_CONFIG_SECRET } from './config.model.ts';
import type { ConfigPatch, NewConfig, Provider } from './config.schema.ts';
import {
  isInBucket,
  LocalDetails,
  S3DetailsPatch,
  ServerDetails,
  type StoredDetails,
} from './details.schema.ts';

/** What differs between the providers: their details, their secret, and what they can promise. */

const PATCHES = { server: ServerDetails, s3: S3DetailsPatch, local: LocalDetails } as const;

const contextOf = (id: string) => sealContext(SEALED_CONFIG_SECRET.table, SEALED_CONFIG_SECRET.column, id);

/**
 * Splits the details of a configuration, or of a vault, into what is stored in clear and what is sealed.
 * @param context  what the sealed value is bound to
 */
export function detailsToStore(
  id: string,
  details: NonNullable<NewConfig['details'] | ConfigPatch['details']>,
  sealer: Sealer,
  context = contextOf,
): { details: StoredDetails; sealedSecret?: string } {
  if (!('accessKey' in details)) return { details };
  const { secretKey, ...place } = details;
  return {
    details: omitUndefined(place),
    ...(secretKey === undefined ? {} : { sealedSecret: sealer.seal(secretKey, context(id)) }),
  };
}

/** Throws `validation_failed` where the details are those of another provider. */
export function assertOfProvider(provider: Provider, details: NonNullable<ConfigPatch['details']>): void {
  const parsed = PATCHES[provider].safeParse(details);
  if (parsed.success) return;
  throw invalid('body.details', `must be the details of the provider ${provider}, which cannot be changed`);
}

/** The secret key of an S3 configuration. It goes to the engine and nowhere else. */
export function secretOf(sealer: Sealer, { id, sealedSecret }: BackupConfig): string | undefined {
  return sealedSecret === null ? undefined : sealer.open(sealedSecret, contextOf(id)).text;
}

/** What each provider can promise about what is stored with it. */
export const CAPABILITIES = {
  server: { isAppendOnly: true, servesEarlierStates: true, prunedBy: 'server' },
  // A device has the rights of the bucket's key; only a policy of the bucket can limit them. The server does not open
  // addresses that a tenant names with the engine, which is not guarded.
  s3: { isAppendOnly: false, servesEarlierStates: false, prunedBy: 'nobody' },
  // The server does not reach a path of the device, and a device never prunes.
  local: { isAppendOnly: false, servesEarlierStates: false, prunedBy: 'nobody' },
} as const satisfies Record<Provider, object>;

/** As answers show a configuration: without its secret. */
export const shownConfig = ({ details, ...config }: BackupConfig) => ({
  ...config,
  details: isInBucket(details) ? { ...details, secretKey: { hasSecret: true as const } } : details,
  providerCapabilities: CAPABILITIES[config.provider],
});
