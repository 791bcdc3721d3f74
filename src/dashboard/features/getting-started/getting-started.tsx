import { Alert, Anchor, List, Text, ThemeIcon, VisuallyHidden } from '@mantine/core';
import { IconCheck, IconCircle, IconFlag } from '@tabler/icons-react';
import { Link, useLocation } from '@tanstack/react-router';
import { Panel } from '../../ui/index.ts';
import { nextOf, type Step } from './steps.ts';
import { useFirstSteps } from './use-first-steps.ts';

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
  if (step.isDone || step.page === undefined) {
    return (
      <Text span size="sm" {...(step.isDone ? { c: 'dimmed' } : {})} fw={isNext ? 600 : 400}>
        {step.title}
      </Text>
    );
  }
  return <StepLink step={step} isNext={isNext} />;
}

function StepLink({ step: { title, page }, isNext }: { step: Step; isNext: boolean }) {
  if (page === undefined) return <>{title}</>;
  return (
    <Anchor size="sm" fw={isNext ? 600 : 400} renderRoot={(props) => <Link {...props} {...page} />}>
      {title}
    </Anchor>
  );
}

/** Pages that have the whole list. */
const LISTED = /^\/(organizations\/.+)?$/;

/** One line above every other page. */
export function NextStep() {
  const { pathname } = useLocation();
  const steps = useFirstSteps();
  const next = steps === undefined ? undefined : nextOf(steps);
  if (next === undefined || steps === undefined || LISTED.test(pathname)) return null;
  const done = steps.filter(({ isDone }) => isDone).length;
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
        Next step: <StepLink step={next} isNext />. {next.help}{' '}
        <Text span size="sm" c="dimmed">
          {done} of {steps.length} done.
        </Text>
      </Text>
    </Alert>
  );
}
