import { Button, PasswordInput, Stack, TextInput, Text } from '@mantine/core';
import { useState, type ReactNode } from 'react';
import { send, ApiError } from '../../api/index.ts';
import { EMAIL_INPUT, Failure, focusOnArrival, useSubmit, Loaded, Notice } from '../../ui/index.ts';
import {
  IncompleteLink,
  PublicCard,
  ToSignIn,
  useMailedToken,
  ToPage,
  type PendingSignIn,
  SecondFactorCard,
} from './public-card.tsx';
import { useQuery } from '@tanstack/react-query';
import { beginSession, useSession } from '../../session.ts';

/** Asks for the mail that leads to a new password. */
export function ForgotPasswordPage() {
  const [email, setEmail] = useState('');
  const [isSent, setSent] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await send('POST /auth/forgot-password', { body: { email: email.trim() } });
    setSent(true);
  });
  return (
    <PublicCard title="Forgotten password" text="We mail you a link with which you can set a new one.">
      {isSent ? (
        <Notice tone="good">
          If there is an account with this address, a mail is on its way. Its link works for an hour. Look
          into the folder for unwanted mail as well.
        </Notice>
      ) : (
        <form onSubmit={onSubmit}>
          <Stack>
            <TextInput
              ref={focusOnArrival}
              label="E-mail address"
              {...EMAIL_INPUT}
              autoComplete="username"
              required
              size="sm"
              value={email}
              onChange={(event) => setEmail(event.currentTarget.value)}
              error={faults['email']}
            />
            {failure !== undefined && <Failure error={failure} />}
            <Button type="submit" size="sm" loading={isBusy}>
              Mail me a link
            </Button>
          </Stack>
        </form>
      )}
      <ToSignIn />
    </PublicCard>
  );
}

export const ResetPasswordPage = () => (
  <PasswordForLink
    title="New password"
    route="POST /auth/reset-password"
    label="New password"
    description="At least 8 characters."
    autoComplete="new-password"
    verb="Set the password"
    done="Your new password is set, and all your sessions have ended. Sign in with it."
  />
);

export const VerifyEmailPage = () => (
  <PasswordForLink
    title="Confirm your address"
    text="The password that you chose at the registration shows that it was you who registered."
    route="POST /auth/verify-email"
    label="Password"
    autoComplete="current-password"
    verb="Confirm"
    done="Your address is confirmed."
  />
);

/** Uses the token of a mailed link, with a password. */
function PasswordForLink({
  title,
  text,
  route,
  label,
  description,
  autoComplete,
  verb,
  done,
}: {
  title: string;
  text?: ReactNode;
  route: 'POST /auth/reset-password' | 'POST /auth/verify-email';
  label: string;
  description?: string;
  autoComplete: string;
  verb: string;
  done: string;
}) {
  const token = useMailedToken();
  const [password, setPassword] = useState('');
  const [isDone, setDone] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await send(route, { body: { token: token ?? '', password } });
    setDone(true);
  });
  if (token === undefined) return <IncompleteLink title={title} />;
  return (
    <PublicCard title={title} text={text}>
      {isDone ? (
        <Notice tone="good">{done}</Notice>
      ) : (
        <form onSubmit={onSubmit}>
          <Stack>
            <PasswordInput
              ref={focusOnArrival}
              label={label}
              description={description}
              autoComplete={autoComplete}
              required
              size="sm"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              error={faults['password']}
            />
            {failure !== undefined && <Failure error={failure} />}
            <Button type="submit" size="sm" loading={isBusy}>
              {verb}
            </Button>
          </Stack>
        </form>
      )}
      <ToSignIn />
    </PublicCard>
  );
}

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
  const [pending, setPending] = useState<PendingSignIn>();
  const invitation = useQuery({
    queryKey: ['invitation', token],
    queryFn: ({ signal }) => send('POST /auth/invite/preview', { body: { token } }, { signal }),
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    const answer = await send('POST /auth/accept-invite', { body: { token, password } });
    onJoined();
    if (answer.mfaRequired) setPending(answer);
    else await beginSession(answer.tokens);
  });
  if (pending !== undefined) {
    return <SecondFactorCard pending={pending} onBack={() => setPending(undefined)} />;
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
                  <Notice tone="warning">
                    This browser is signed in as {session.me.user.email}. If you join, it is signed in as{' '}
                    {email} instead.
                  </Notice>
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

/** The server gives no reason, so that invitations cannot be discovered by guessing. */
function GoneInvitation() {
  return (
    <Notice tone="warning" role="alert" title="This invitation is no longer valid">
      <Stack gap="xs">
        <Text size="sm">
          It was accepted, has expired after 7 days, was withdrawn, or a newer mail has replaced it.
        </Text>
        <Text size="sm">
          If you have accepted it, sign in. Otherwise use the newest mail, or ask the person who invited you
          to choose “Invite again” under People.
        </Text>
      </Stack>
    </Notice>
  );
}
