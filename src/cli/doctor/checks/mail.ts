import type { Config } from '../../../config.ts';
import type { Logger } from '../../../platform/logger.ts';
import { createDelivery, greetMailServer } from '../../../platform/mail/delivery.ts';
import { type Check, failed, messageOf, ok, warning } from '../check.ts';

export const mailCheck = (
  { mail, dataDir }: Pick<Config, 'mail' | 'dataDir'>,
  log: Logger,
  sendTo: string | undefined,
): Check => ({
  name: 'mail',
  async run() {
    const { smtpUrl, from } = mail;
    if (smtpUrl === undefined) {
      return warning(
        'SMTP_URL is not set: mails are written to the folder mail of DATA_DIR, and reach nobody.',
        'Set SMTP_URL to your mail server.',
      );
    }
    const { host } = new URL(smtpUrl);
    try {
      if (sendTo === undefined) {
        await greetMailServer(smtpUrl);
        return ok(`${host} greets and accepts the sign-in. --send-mail-to sends a test mail.`);
      }
      const text = 'This mail was sent by `muster doctor`, to show that the mails of this server arrive.';
      await createDelivery({ smtpUrl, from, dataDir, log })({ to: sendTo, subject: 'Test of Muster', text });
      return ok(`${host} has taken a mail to ${sendTo}.`);
    } catch (error) {
      return failed(
        `${host} refuses: ${messageOf(error)}.`,
        'Correct SMTP_URL, or ask who runs the mail server.',
      );
    }
  },
});
