import { Alert, Anchor, Text } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';

const AGAIN = 'Begin again, in this browser.';
/** Why a consent has led to no connection, as the server says it in the address. */
const FAULTS: Readonly<Record<string, string>> = {
  state_unknown: `The consent was not begun in this browser, or it took longer than 15 minutes. ${AGAIN}`,
  consent_refused: 'The consent was refused at Microsoft. Nothing was connected.',
  answer_invalid: `Microsoft did not say which directory it is. ${AGAIN}`,
  code_refused: `Microsoft did not confirm the sign-in. ${AGAIN}`,
  token_invalid: 'Somebody has signed in to another directory than the one that was consented to.',
  administrator_required:
    'The person who signed in is no administrator of the directory. A global, privileged role, application or cloud application administrator has to do it.',
  provider_unreachable: 'Microsoft could not be reached. Try again later.',
  session_expired: 'You were signed out meanwhile. Sign in, and begin again.',
  forbidden: 'Your role no longer allows you to connect directories of this organization.',
  limit_reached: 'The organization has as many connections as it may have. Disconnect one first.',
  rate_limited: 'There were too many attempts. Wait a minute, and begin again.',
};

export function ConsentOutcome({
  connected,
  fault,
  onClose,
}: {
  connected: string | undefined;
  fault: string | undefined;
  onClose: () => void;
}) {
  const isClosable = {
    withCloseButton: true,
    closeButtonLabel: 'Close',
    onClose,
    // The colour alone is too pale on its own ground.
    styles: { title: { color: 'var(--mantine-color-text)' } },
  };
  if (fault !== undefined) {
    return (
      <Alert
        {...isClosable}
        color="red"
        icon={<IconAlertTriangle aria-hidden />}
        title="The directory was not connected"
        role="alert"
      >
        <Text size="sm">{FAULTS[fault] ?? `Something failed on the server. ${AGAIN}`}</Text>
      </Alert>
    );
  }
  if (connected === undefined) return null;
  return (
    <Alert
      {...isClosable}
      color="teal"
      icon={<IconCircleCheck aria-hidden />}
      title="The directory is connected"
      role="status"
    >
      <Text size="sm">
        Nothing is backed up yet.{' '}
        <Anchor
          inherit
          underline="always"
          c="var(--mantine-color-text)"
          renderRoot={(props) => <Link {...props} to="/cloud-backup" />}
        >
          Make a configuration
        </Anchor>{' '}
        that says what is backed up.
      </Text>
    </Alert>
  );
}
