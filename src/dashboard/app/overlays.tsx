import { Button, getDefaultZIndex, Group, Stack, Text, TextInput } from '@mantine/core';
import { useState, useEffect, useRef } from 'react';
import { answerStepUpWith, call, holdTokens } from '../api/index.ts';
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
  /** Asked each time: it may have been set up meanwhile, also elsewhere. */
  const [hasFactor, setHasFactor] = useState(true);
  const [code, setCode] = useState('');
  /** The requests that wait: several of one page may ask at once. */
  const waiting = useRef<((proven: boolean) => void)[]>([]);
  useEffect(() => {
    answerStepUpWith(async () => {
      const me = await call('GET /users/me', {}).catch(() => undefined);
      setHasFactor(me?.mfaEnabled ?? true);
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
  const { onSubmit, isBusy, failure, forget } = useSubmit(async () => {
    holdTokens(await call('POST /auth/mfa/step-up', { body: { code: code.trim() } }));
    end(true);
  });
  const cancel = () => {
    forget();
    end(false);
  };
  if (!hasFactor) return <SetUpFirst isOpen={isOpen} onClose={cancel} />;
  return (
    <Modal opened={isOpen} onClose={cancel} title="Confirm that it is you" centered zIndex={OVER_DIALOGS}>
      <form onSubmit={onSubmit}>
        <Stack>
          <Text size="sm">This action needs a code for two-factor authentication.</Text>
          <TextInput
            label="Code"
            description="Six digits of your authenticator app, or a recovery code."
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
            <Button type="submit" loading={isBusy}>
              Confirm
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}

/** An account without a second factor has no code to give. */
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
          This action needs a code of an authenticator app, and your account has none yet. Set it up in your
          profile: it takes a minute, with any app that shows six-digit codes. Then repeat the action.
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
