import { Alert, List, Text, ThemeIcon, VisuallyHidden } from '@mantine/core';
import { IconCheck, IconCircle, IconFlag } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useLocation } from '@tanstack/react-router';
import { Panel, useNow, TextLink } from '../../ui/index.ts';
import { apiQuery } from '../../api/index.ts';
import { useOrganizations, useProviders, useSites } from '../../directory.ts';
import { refusalOf, useMe } from '../../session.ts';
import { nextOf, pathOf, type Step, stepsOf } from './steps.ts';

/** The steps from an empty server, or an empty organization, to the first device. It is gone when that is there. */
export function GettingStarted({ orgId }: { orgId?: string }) {
  const steps = useFirstSteps(orgId);
  if (steps === undefined) return null;
  const next = nextOf(steps);
  return (
    <Panel title="Getting started" label="Getting started">
      <List spacing="xs" size="sm" listStyleType="none" center={false}>
        {steps.map((step) => (
          <List.Item
            key={step.title}
            icon={
              <ThemeIcon size={20} radius="xl" variant="light" color={step.isDone ? 'teal' : 'gray'}>
                {step.isDone ? <IconCheck size={14} aria-hidden /> : <IconCircle size={14} aria-hidden />}
              </ThemeIcon>
            }
          >
            <VisuallyHidden>{step.isDone ? 'Done: ' : step === next ? 'Next: ' : 'Later: '}</VisuallyHidden>
            <StepTitle step={step} isNext={step === next} />
            {!step.isDone && (
              <Text size="sm" c="dimmed">
                {step.help}
              </Text>
            )}
          </List.Item>
        ))}
      </List>
    </Panel>
  );
}

function StepTitle({ step, isNext }: { step: Step; isNext: boolean }) {
  const isHere = useIsHere(step);
  if (step.isDone || isHere || step.page === undefined) {
    return (
      <Text span size="sm" {...(step.isDone ? { c: 'dimmed' } : {})} fw={isNext ? 600 : 400}>
        {step.title}
        {isHere && !step.isDone && `. ${step.here}`}
      </Text>
    );
  }
  return <StepLink step={step} isNext={isNext} />;
}

function StepLink({ step: { title, page }, isNext }: { step: Step; isNext: boolean }) {
  if (page === undefined) return <>{title}</>;
  return (
    <TextLink size="sm" fw={isNext ? 600 : 400} {...page}>
      {title}
    </TextLink>
  );
}

/** Whether the page of the step is the one that is open: a link to it would do nothing. */
function useIsHere({ page }: Step): boolean {
  const { pathname } = useLocation();
  return page !== undefined && pathname === pathOf(page);
}

/** Pages that have the whole list. */
const LISTED = /^\/(organizations\/.+)?$/;

/** One line above every other page. */
export function NextStep() {
  const { pathname } = useLocation();
  const steps = useFirstSteps();
  const next = steps === undefined ? undefined : nextOf(steps);
  if (next === undefined || steps === undefined || LISTED.test(pathname)) return null;
  return <OneStep step={next} done={steps.filter(({ isDone }) => isDone).length} of={steps.length} />;
}

function OneStep({ step, done, of }: { step: Step; done: number; of: number }) {
  const isHere = useIsHere(step);
  return (
    <Alert
      mb="sm"
      p="xs"
      variant="outline"
      color="blue"
      icon={<IconFlag size={16} aria-hidden />}
      role="note"
      aria-label="The next step"
    >
      <Text size="sm">
        Next step:{' '}
        {isHere ? (
          <>
            <b>{step.title}</b>. {step.here}
          </>
        ) : (
          <>
            <StepLink step={step} isNext />. {step.help}
          </>
        )}{' '}
        <Text span size="sm" c="dimmed" style={{ whiteSpace: 'nowrap' }}>
          {done} of {of} done.
        </Text>
      </Text>
    </Alert>
  );
}

/** Until the first device is there; it, a release and a key may come by other ways than this page. */
const READ_AGAIN_MS = 5_000;

/**
 * What is left to do until the first device is there, of all organizations or of one. `undefined` if nothing is left,
 * if it is not known yet, and for people who cannot enroll devices.
 */
function useFirstSteps(orgId?: string): readonly Step[] | undefined {
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
