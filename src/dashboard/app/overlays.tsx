import { Button, getDefaultZIndex, Group, Stack, Text, TextInput } from '@mantine/core';
import { IconFingerprint } from '@tabler/icons-react';
import { useState, useEffect, useRef } from 'react';
import { answerStepUpWith, call, holdTokens, type Answer } from '../api/index.ts';
import { askPasskey, hasPasskeys } from '../passkeys.ts';
import { KeysDialog, Failure, useSubmit, Modal, ButtonLink } from '../ui/index.ts';
import { Palette } from './palette.tsx';

/** The overlays of all pages. They are loaded after the page, which does not wait for them. */
export function Overlays({ showsKeys, onKeysClose }: { showsKeys: boolean; onKeysClose: () => void }) {
  return (
    <>
      <KeyboardHelp opened={showsKeys} onClose={onKeysClose} />
      <StepUpDialog />
      <Palette />
    </>
  );
}

/** Over the dialog whose action it is asked for, whichever of the two came first into the page. */
const OVER_DIALOGS = getDefaultZIndex('overlay');

/**
 * Asks for the second factor, or leads to its set-up, if a request needs one that the session does not have yet, and
 * then repeats the request.
 */
function StepUpDialog() {
  const [isOpen, setOpen] = useState(false);
  /** Asked each time: one may have been set up meanwhile, also elsewhere. */
  const [factors, setFactors] = useState<Answer<'GET /auth/mfa'>>();
  const [code, setCode] = useState('');
  /** The requests that wait: several of one page may ask at once. */
  const waiting = useRef<((proven: boolean) => void)[]>([]);
  useEffect(() => {
    answerStepUpWith(async () => {
      setFactors(await call('GET /auth/mfa', {}).catch(() => undefined));
      setOpen(true);
      return new Promise<boolean>((resolve) => {
        waiting.current.push(resolve);
      });
    });
    return () => answerStepUpWith(() => Promise.resolve(false));
  }, []);
  const end = (proven: boolean) => {
    setOpen(false);
    setCode('');
    for (const answer of waiting.current.splice(0)) answer(proven);
  };
  const byCode = useSubmit(async () => {
    holdTokens(await call('POST /auth/mfa/step-up', { body: { code: code.trim() } }));
    end(true);
  });
  const byPasskey = useSubmit(async () => {
    const credential = await askPasskey(await call('POST /auth/mfa/step-up-options', {}));
    holdTokens(await call('POST /auth/mfa/step-up-passkey', { body: { credential } }));
    end(true);
  });
  const failure = byCode.failure ?? byPasskey.failure;
  const cancel = () => {
    byCode.forget();
    byPasskey.forget();
    end(false);
  };
  const { mfaEnabled = true, app = true, passkeys = 0 } = factors ?? {};
  if (!mfaEnabled) return <SetUpFirst isOpen={isOpen} onClose={cancel} />;
  return (
    <Modal opened={isOpen} onClose={cancel} title="Confirm that it is you" centered zIndex={OVER_DIALOGS}>
      <form onSubmit={byCode.onSubmit}>
        <Stack>
          <Text size="sm">This action needs your second factor.</Text>
          {passkeys > 0 && hasPasskeys() && (
            <Button
              variant="default"
              leftSection={<IconFingerprint size={16} aria-hidden />}
              loading={byPasskey.isBusy}
              onClick={byPasskey.onSubmit}
            >
              Use a passkey
            </Button>
          )}
          <TextInput
            label="Code"
            description={
              app
                ? 'Six digits of your authenticator app, or a recovery code.'
                : 'One of your recovery codes.'
            }
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
            autoComplete="one-time-code"
            data-autofocus
            required
          />
          {failure !== undefined && <Failure error={failure} />}
          <Group justify="flex-end">
            <Button variant="default" onClick={cancel}>
              Cancel
            </Button>
            <Button type="submit" loading={byCode.isBusy}>
              Confirm
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** An account without a second factor has none to give. */
function SetUpFirst({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      title="Set up two-factor authentication"
      centered
      zIndex={OVER_DIALOGS}
    >
      <Stack>
        <Text size="sm">
          This action needs a second factor, and your account has none yet. Set one up in your profile: a
          passkey, or any app that shows six-digit codes. It takes a minute. Then repeat the action.
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <ButtonLink data-autofocus onClick={onClose} to="/profile">
            Go to the profile
          </ButtonLink>
        </Group>
      </Stack>
    </Modal>
  );
}

const KEYS: [string[], string][] = [
  [['Ctrl', 'K'], 'Search devices, pages and actions'],
  [['?'], 'Show this list'],
  [['/'], 'Go to the search field of the page'],
  [['j', 'k'], 'Next and previous row of a table'],
  [['Enter'], 'Open the row'],
  [['Space'], 'Select the row'],
  [['Esc'], 'Close a dialog or a panel'],
];

const KeyboardHelp = (props: { opened: boolean; onClose: () => void }) => (
  <KeysDialog title="Keys" keys={KEYS} {...props} />
);
