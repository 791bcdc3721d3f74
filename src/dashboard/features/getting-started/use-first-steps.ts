import { useQuery } from '@tanstack/react-query';
import { apiQuery } from '../../api/index.ts';
import { useOrganizations, useProviders, useSites } from '../../directory/index.ts';
import { refusalOf, useMe } from '../../session/index.ts';
import { useNow } from '../../ui/index.ts';
import { stepsOf, type Step } from './steps.ts';

/** Until the first device is there; it, a release and a key may come by other ways than this page. */
const READ_AGAIN_MS = 5_000;

/**
 * What is left to do until the first device is there, of all organizations or of one. `undefined` where nothing is left,
 * where it is not known yet, and for people who cannot enroll devices.
 */
export function useFirstSteps(orgId?: string): readonly Step[] | undefined {
  const me = useMe();
  const now = useNow();
  const isConcerned = ['devices:read', 'agents:write'].every((each) => refusalOf(me, each) === undefined);
  const devices = useQuery({
    ...apiQuery('GET /devices', { query: { limit: '1', orgId } }),
    enabled: isConcerned,
    // A fleet that has a device keeps its record, so the question is answered for ever.
    refetchInterval: ({ state }) => (isNone(state.data) ? READ_AGAIN_MS : false),
    staleTime: ({ state }) => (isNone(state.data) ? 0 : Number.POSITIVE_INFINITY),
  });
  const isOpen = isConcerned && isNone(devices.data);
  const again = { enabled: isOpen, refetchInterval: READ_AGAIN_MS };
  const releases = useQuery({
    ...apiQuery('GET /agent-versions', { query: { component: 'watchdog', limit: '100' } }),
    ...again,
  });
  const keys = useQuery({
    ...apiQuery('GET /enrollment-keys', { query: { limit: '20', orgId } }),
    ...again,
  });
  const providers = useProviders();
  const organizations = useOrganizations();
  const sites = useSites(orgId);
  if (!isOpen || releases.data === undefined || keys.data === undefined || providers === undefined) {
    return undefined;
  }
  const steps = stepsOf({
    scope: me.scope,
    isOfOne: orgId !== undefined,
    providers: providers.length,
    organizations: organizations.filter(({ id }) => orgId === undefined || id === orgId),
    sites,
    isInstallable: releases.data.data.some(({ promoted }) => promoted),
    hasKey: keys.data.data.some(
      ({ revokedAt, expiresAt, maxUsage, usageCount }) =>
        revokedAt === null &&
        (expiresAt === null || Date.parse(expiresAt) > now) &&
        (maxUsage === null || usageCount < maxUsage),
    ),
  });
  return steps;
}

const isNone = (list: { pagination: { total: number } } | undefined) => list?.pagination.total === 0;
