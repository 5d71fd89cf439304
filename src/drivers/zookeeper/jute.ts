/**
 * Jute, the encoding of ZooKeeper's protocol: big-endian integers, lengths before bytes. 64-bit
 * integers are `bigint`: a transaction id as a double loses its last digits beyond 2^53.
 *
 * Format: the records of `zookeeper.jute` in ZooKeeper's source tree.
 */

const EMPTY = Buffer.alloc(0);
const LENGTH_BYTES = 4;
/** Most requests are shorter. */
const FIRST_ROOM = 512;
/** An ensemble with a great many names answers with a long list; more than this is no answer. */
const LONGEST_FRAME = 64 * 1024 * 1024;

/** Writes one record, with room in front for its length. */
export class JuteWriter {
  #bytes: Buffer = Buffer.allocUnsafe(FIRST_ROOM);
  #at = LENGTH_BYTES;

  int(value: number): this {
    this.#makeRoom(4);
    this.#at = this.#bytes.writeInt32BE(value, this.#at);
    return this;
  }

  long(value: bigint): this {
    this.#makeRoom(8);
    this.#at = this.#bytes.writeBigInt64BE(value, this.#at);
    return this;
  }

  bool(value: boolean): this {
    this.#makeRoom(1);
    this.#at = this.#bytes.writeInt8(value ? 1 : 0, this.#at);
    return this;
  }

  buffer(value: Uint8Array): this {
    this.int(value.length).#makeRoom(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
    return this;
  }

  text(value: string): this {
    const length = Buffer.byteLength(value, "utf8");
    this.int(length).#makeRoom(length);
    this.#at += this.#bytes.write(value, this.#at, "utf8");
    return this;
  }

  /** What was written, with its length in front: one frame. The last call of a writer. */
  frame(): Buffer {
    this.#bytes.writeInt32BE(this.#at - LENGTH_BYTES, 0);
    return this.#bytes.subarray(0, this.#at);
  }

  #makeRoom(length: number): void {
    if (this.#at + length <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * (this.#at + length));
    larger.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = larger;
  }
}

/** Reads one record. @throws RangeError where it ends too soon. */
export class JuteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Bytes that were not read yet. */
  get left(): number {
    return this.#bytes.length - this.#at;
  }

  int(): number {
    return this.#take(4).readInt32BE();
  }

  long(): bigint {
    return this.#take(8).readBigInt64BE();
  }

  bool(): boolean {
    return this.#take(1)[0] === 1;
  }

  /** Bytes; a length below 0 stands for none. */
  buffer(): Buffer {
    const length = this.int();
    return length < 0 ? EMPTY : this.#take(length);
  }

  text(): string {
    return this.buffer().toString("utf8");
  }

  texts(): readonly string[] {
    const count = this.int();
    return Array.from({ length: Math.max(0, count) }, () => this.text());
  }

  #take(length: number): Buffer {
    if (length > this.left) throw new RangeError(`a record ends ${length - this.left} bytes early`);
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }
}

/** Cuts a stream into frames, whatever pieces it comes in. */
export class Frames {
  #pieces: Buffer[] = [];
  #length = 0;

  /**
   * The frames that are complete now.
   *
   * @throws RangeError for a length that no server sends: the stream is not ZooKeeper's.
   */
  *push(piece: Buffer): Generator<Buffer, void, undefined> {
    this.#pieces.push(piece);
    this.#length += piece.length;
    while (this.#length >= 4) {
      const length = this.#joined(4).readInt32BE();
      if (length < 0 || length > LONGEST_FRAME) {
        throw new RangeError(`a frame of ${length} bytes is not of ZooKeeper's protocol`);
      }
      if (this.#length < 4 + length) return;
      const bytes = this.#joined(4 + length);
      this.#pieces = [bytes.subarray(4 + length)];
      this.#length -= 4 + length;
      yield bytes.subarray(4, 4 + length);
    }
  }

  /** The pieces as one, when the first is shorter than what is wanted. */
  #joined(length: number): Buffer {
    if (this.#pieces.length > 1 && this.#pieces[0]!.length < length) {
      this.#pieces = [Buffer.concat(this.#pieces)];
    }
    return this.#pieces[0]!;
  }
}
