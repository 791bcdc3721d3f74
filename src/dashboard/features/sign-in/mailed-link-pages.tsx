import { Alert, Button, PasswordInput, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, send } from '../../../api/index.ts';
import { beginSession, useSession } from '../../../session/index.ts';
import { Failure, focusOnArrival, Loaded, useSubmit } from '../../../ui/index.ts';
import { PublicCard } from '../public-card.tsx';
import { SecondFactorForm } from '../second-factor-form.tsx';
import { ToPage } from '../to-page.tsx';
import { IncompleteLink, ToSignIn } from './link-parts.tsx';
import { useMailedToken } from './use-mailed-token.ts';

/** Joins a provider or an organization: with a new password, or with that of an account that exists already. */
export function AcceptInvitationPage() {
  const token = useMailedToken();
  const session = useSession();
  const [hasJoined, setJoined] = useState(false);
  if (hasJoined && session.state === 'signed_in') return <ToPage path="/" />;
  if (token === undefined) return <IncompleteLink title="Invitation" />;
  return <Invitation token={token} onJoined={() => setJoined(true)} />;
}

function Invitation({ token, onJoined }: { token: string; onJoined: () => void }) {
  const session = useSession();
  const [password, setPassword] = useState('');
  const [pending, setPending] = useState<string>();
  const invitation = useQuery({
    queryKey: ['invitation', token],
    queryFn: ({ signal }) => send('POST /auth/invite/preview', { body: { token } }, { signal }),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    const answer = await send('POST /auth/accept-invite', { body: { token, password } });
    onJoined();
    if (answer.mfaRequired) setPending(answer.tempToken);
    else await beginSession(answer.tokens);
  });
  if (pending !== undefined) {
    return (
      <PublicCard
        title="Two-factor authentication"
        text="Enter the code of your authenticator app, or a recovery code."
      >
        <SecondFactorForm tempToken={pending} onBack={() => setPending(undefined)} />
      </PublicCard>
    );
  }
  return (
    <PublicCard title="Invitation">
      {invitation.error !== null && isGone(invitation.error) ? (
        <GoneInvitation />
      ) : (
        <Loaded query={invitation} what="Reading the invitation">
          {({ email, name, orgName, partnerName }) => (
            <form onSubmit={onSubmit}>
              <Stack>
                <div>
                  {name}, you are invited to {orgName ?? partnerName ?? 'Muster'} as {email}.
                </div>
                {session.state === 'signed_in' && (
                  <Alert color="orange">
                    This browser is signed in as {session.me.user.email}. If you join, it is signed in as{' '}
                    {email} instead.
                  </Alert>
                )}
                <PasswordInput
                  ref={focusOnArrival}
                  label="Password"
                  description="A new one of at least 8 characters; if you have an account already, its password."
                  autoComplete="new-password"
                  required
                  size="sm"
                  value={password}
                  onChange={(event) => setPassword(event.currentTarget.value)}
                  error={faults['password']}
                />
                {failure !== undefined &&
                  (isGone(failure) ? <GoneInvitation /> : <Failure error={failure} />)}
                <Button type="submit" size="sm" loading={isBusy}>
                  Join
                </Button>
              </Stack>
            </form>
          )}
        </Loaded>
      )}
      <ToSignIn />
    </PublicCard>
  );
}

const isGone = (error: Error): boolean => error instanceof ApiError && error.status === 404;

/** The server does not tell why, so that nobody learns of invitations by trying. */
function GoneInvitation() {
  return (
    <Alert color="orange" role="alert" title="This invitation is no longer valid">
      <Stack gap="xs">
        <Text size="sm">
          It was accepted, has expired after 7 days, was withdrawn, or a newer mail has replaced it.
        </Text>
        <Text size="sm">
          If you have accepted it, sign in. Otherwise use the newest mail, or ask the person who invited you
          to choose “Invite again” under People.
        </Text>
      </Stack>
    </Alert>
  );
}
